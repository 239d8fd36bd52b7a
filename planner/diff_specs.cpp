#include <algorithm>
#include <array>
#include <map>

#include "planner/diff.h"

namespace tpplan {
namespace {

/// Collects what two things of one kind have, a side at a time.
class Sides {
 public:
  void number(const std::string& section, const std::string& key, const std::string& name, DiffUnit unit, double a,
              double b) {
    term(section, {key, name, unit, a, b});
  }
  /// A number that 0 says is unknown or not offered.
  void known(const std::string& section, const std::string& key, const std::string& name, DiffUnit unit, double a,
             double b) {
    const auto side = [](double value) { return value == 0 ? std::nullopt : std::optional(value); };
    if (a != 0 || b != 0) {
      term(section, {key, name, unit, side(a), side(b)});
    }
  }
  void text(const std::string& name, std::string_view a, std::string_view b) {
    if (a != b) {
      difference_.inputs.push_back({name, std::string(a), std::string(b)});
    }
  }
  void term(const std::string& section, DiffTerm term) {
    auto& sections = difference_.sections;
    auto at = std::find_if(sections.begin(), sections.end(), [&](const auto& row) { return row.key == section; });
    if (at == sections.end()) {
      sections.push_back({section, section, {}});
      at = sections.end() - 1;
    }
    at->terms.push_back(std::move(term));
  }

  /// The difference of that kind, with a summary of how many terms differ.
  Difference take(const std::string& kind) {
    std::size_t all = 0, differing = 0;
    const DiffTerm* largest = nullptr;
    for (DiffSection& section : difference_.sections) {
      sort_terms(section);
      for (const DiffTerm& row : section.terms) {
        ++all;
        differing += row.differs() ? 1 : 0;
        const bool larger = row.relative() && (largest == nullptr || magnitude(row) > magnitude(*largest));
        largest = larger && row.differs() ? &row : largest;
      }
    }
    difference_.kind = kind;
    difference_.summary = differing == 0 ? "no number differs"
                                         : std::to_string(differing) + " of " + std::to_string(all) + " numbers differ";
    if (largest != nullptr) {
      difference_.summary += "; the largest relative change is " + largest->name;
    }
    return std::move(difference_);
  }

 private:
  /// How far apart, the same in both directions: a factor of two up weighs as much as one down.
  static double magnitude(const DiffTerm& term) {
    const double ratio = 1 + term.relative().value_or(0);
    return ratio <= 0 ? 1e300 : std::max(ratio, 1 / ratio);
  }
  Difference difference_;
};

double of(Bytes value) { return value.raw(); }

void diff_gpus(Sides& sides, const GpuSpec& a, const GpuSpec& b) {
  sides.text("GPU", a.id, b.id);
  sides.text("architecture", a.architecture, b.architecture);
  sides.text("GPU topology", name_of(a.topology), name_of(b.topology));
  sides.number("GPU", "memory_bytes", "memory", DiffUnit::bytes, of(a.memory), of(b.memory));
  sides.number("GPU", "usable_bytes", "memory a process can get", DiffUnit::bytes, of(a.usable), of(b.usable));
  sides.number("GPU", "memory_bytes_per_s", "memory bandwidth", DiffUnit::bytes_per_second, a.memory_bandwidth.raw(),
               b.memory_bandwidth.raw());
  for (const PrecisionRow& row : kPrecisionTable) {
    sides.known("GPU", std::string(row.name) + "_flops_per_s", "dense " + std::string(row.name) + " peak",
                DiffUnit::flops_per_second, a.peak_of(row.precision).raw(), b.peak_of(row.precision).raw());
  }
  sides.known("GPU", "sms", "multiprocessors", DiffUnit::count, a.sms, b.sms);
  sides.known("GPU", "tdp_watts", "power limit", DiffUnit::watts, a.tdp_watts, b.tdp_watts);
}

std::string tier_name(const ClusterSpec& cluster, std::size_t index) {
  return index < cluster.tiers.size() ? cluster.tiers[index].name : std::string();
}

void diff_tiers(Sides& sides, const ClusterSpec& a, const ClusterSpec& b) {
  for (std::size_t i = 0; i < std::max(a.tiers.size(), b.tiers.size()); ++i) {
    const std::string key = "tier" + std::to_string(i + 1);
    const std::string name = "tier " + std::to_string(i + 1) + " ";
    sides.text(name + "kind", tier_name(a, i), tier_name(b, i));
    const auto side = [i](const ClusterSpec& cluster, auto value) {
      return i < cluster.tiers.size() ? std::optional<double>(value(cluster.tiers[i])) : std::nullopt;
    };
    const auto add = [&](const std::string& what, const std::string& words, DiffUnit unit, auto value) {
      sides.term("network", {key + "_" + what, name + words, unit, side(a, value), side(b, value)});
    };
    add("span", "span", DiffUnit::count, [](const NetworkTier& tier) { return tier.span; });
    add("bytes_per_s", "bandwidth per GPU", DiffUnit::bytes_per_second,
        [](const NetworkTier& tier) { return tier.bandwidth.raw(); });
    add("latency_s", "latency", DiffUnit::seconds, [](const NetworkTier& tier) { return tier.latency.raw(); });
    add("oversubscription", "oversubscription", DiffUnit::count,
        [](const NetworkTier& tier) { return tier.oversubscription; });
  }
}

std::string placement_text(const CollectiveCurve& curve) {
  std::string text = std::string(row_of(curve.collective).name) + " on " + std::to_string(curve.placement.nodes) + "x" +
                     std::to_string(curve.placement.gpus_per_node);
  text += curve.placement.stride > 1 ? " stride " + std::to_string(curve.placement.stride) : "";
  text += curve.concurrent_groups > 1 ? ", " + std::to_string(curve.concurrent_groups) + " groups" : "";
  return text;
}

void diff_curve(Sides& sides, const CollectiveCurve& a, const CollectiveCurve& b) {
  constexpr std::array<Bytes, 5> kSizes{1_KiB, 64_KiB, 1_MiB, 64_MiB, 1024_MiB};
  if (a.points.empty() || b.points.empty()) {
    return;
  }
  const Bytes low = max(a.points.front().size, b.points.front().size);
  const Bytes high = min(a.points.back().size, b.points.back().size);
  for (const Bytes size : kSizes) {
    if (size >= low && size <= high) {
      const std::string name = placement_text(a) + ", " + format(size);
      sides.number("collectives", name + " (s)", name, DiffUnit::seconds, a.time(size).raw(), b.time(size).raw());
    }
  }
}

/// The curves of one side that the other has too are compared, the rest is listed among the inputs.
void diff_curves(Sides& sides, const Calibration& a, const Calibration& b) {
  for (const CollectiveCurve& curve : a.curves) {
    if (a.find(curve.collective, curve.placement, curve.concurrent_groups) != &curve) {
      continue;  // another curve of the same place is the one that is used
    }
    const CollectiveCurve* other = b.find(curve.collective, curve.placement, curve.concurrent_groups);
    if (other == nullptr) {
      sides.text("curve", placement_text(curve), "");
    } else {
      diff_curve(sides, curve, *other);
    }
  }
  for (const CollectiveCurve& curve : b.curves) {
    if (b.find(curve.collective, curve.placement, curve.concurrent_groups) == &curve &&
        a.find(curve.collective, curve.placement, curve.concurrent_groups) == nullptr) {
      sides.text("curve", "", placement_text(curve));
    }
  }
}

/// The best rate of each kind.
template <class Points, class Name, class Rate>
std::map<std::string, double> best_rates(const Points& points, Name name, Rate rate) {
  std::map<std::string, double> best;
  for (const auto& point : points) {
    double& value = best[name(point)];
    value = std::max(value, rate(point));
  }
  return best;
}

void diff_rates(Sides& sides, DiffUnit unit, const std::map<std::string, double>& a,
                const std::map<std::string, double>& b) {
  std::map<std::string, double> all = a;
  all.insert(b.begin(), b.end());
  const auto side = [](const std::map<std::string, double>& rates, const std::string& name) {
    const auto at = rates.find(name);
    return at == rates.end() ? std::nullopt : std::optional(at->second);
  };
  for (const auto& [name, unused] : all) {
    sides.term("kernels", {name, name, unit, side(a, name), side(b, name)});
  }
}

std::string choice_text(bool value, const char* yes, const char* no) { return value ? yes : no; }

}  // namespace

Difference diff_clusters(const ClusterSpec& a, const ClusterSpec& b) {
  Sides sides;
  sides.number("cluster", "gpus", "GPUs", DiffUnit::count, a.gpus(), b.gpus());
  sides.number("cluster", "nodes", "nodes", DiffUnit::count, a.nodes, b.nodes);
  sides.number("cluster", "gpus_per_node", "GPUs per node", DiffUnit::count, a.gpus_per_node, b.gpus_per_node);
  sides.known("cluster", "host_memory_bytes", "host memory per node", DiffUnit::bytes, of(a.host_memory),
              of(b.host_memory));
  sides.known("cluster", "host_link_bytes_per_s", "GPU to host", DiffUnit::bytes_per_second, a.host_link.raw(),
              b.host_link.raw());
  sides.known("cluster", "storage_read_bytes_per_s", "storage, reading", DiffUnit::bytes_per_second,
              a.storage_read.raw(), b.storage_read.raw());
  sides.known("cluster", "storage_write_bytes_per_s", "storage, writing", DiffUnit::bytes_per_second,
              a.storage_write.raw(), b.storage_write.raw());
  diff_gpus(sides, a.gpu, b.gpu);
  diff_tiers(sides, a, b);
  sides.text("calibration", a.calibration, b.calibration);
  return sides.take("clusters");
}

Difference diff_models(const ModelSpec& a, const ModelSpec& b) {
  Sides sides;
  const ParameterCounts of_a = parameter_counts(a), of_b = parameter_counts(b);
  const auto count = [&](const std::string& section, const char* key, const char* name, double x, double y) {
    sides.number(section, key, name, DiffUnit::count, x, y);
  };
  const auto parameters = [&](const char* key, const char* name, std::int64_t x, std::int64_t y) {
    count("parameters", key, name, static_cast<double>(x), static_cast<double>(y));
  };
  parameters("total_params", "parameters", of_a.total, of_b.total);
  parameters("active_params", "active per token", of_a.active, of_b.active);
  parameters("embedding_params", "embedding and head", of_a.embedding, of_b.embedding);
  struct ShapeRow {
    const char* key;
    int ModelSpec::*field;
  };
  constexpr std::array<ShapeRow, 11> kShapeRows{{{"layers", &ModelSpec::layers},
                                                 {"hidden", &ModelSpec::hidden},
                                                 {"heads", &ModelSpec::heads},
                                                 {"kv_heads", &ModelSpec::kv_heads},
                                                 {"head_dim", &ModelSpec::head_dim},
                                                 {"ffn_hidden", &ModelSpec::ffn_hidden},
                                                 {"vocab", &ModelSpec::vocab},
                                                 {"attention_window", &ModelSpec::attention_window},
                                                 {"learned_positions", &ModelSpec::learned_positions},
                                                 {"mtp_layers", &ModelSpec::mtp_layers},
                                                 {"default_seq", &ModelSpec::default_seq}}};
  for (const ShapeRow& row : kShapeRows) {
    sides.known("shape", row.key, row.key, DiffUnit::count, a.*row.field, b.*row.field);
  }
  const MoeSpec moe_a = a.moe.value_or(MoeSpec{}), moe_b = b.moe.value_or(MoeSpec{});
  sides.known("shape", "moe_layers", "MoE layers", DiffUnit::count, a.moe_layer_count(), b.moe_layer_count());
  sides.known("shape", "experts", "experts", DiffUnit::count, moe_a.experts, moe_b.experts);
  sides.known("shape", "experts_per_token", "experts per token", DiffUnit::count, moe_a.top_k, moe_b.top_k);
  sides.known("shape", "expert_ffn", "expert_ffn", DiffUnit::count, moe_a.expert_ffn, moe_b.expert_ffn);
  sides.known("shape", "shared_ffn", "shared_ffn", DiffUnit::count, moe_a.shared_ffn, moe_b.shared_ffn);
  sides.text("architecture", a.architecture, b.architecture);
  sides.text("attention", choice_text(a.latent.has_value(), "latent", "grouped query"),
             choice_text(b.latent.has_value(), "latent", "grouped query"));
  sides.text("MLP", choice_text(a.gated_mlp, "gated", "plain"), choice_text(b.gated_mlp, "gated", "plain"));
  sides.text("embeddings", choice_text(a.tied_embeddings, "tied", "untied"),
             choice_text(b.tied_embeddings, "tied", "untied"));
  return sides.take("models");
}

Difference diff_calibrations(const Calibration& a, const Calibration& b) {
  Sides sides;
  sides.text("name", a.name, b.name);
  sides.text("GPU", a.gpu, b.gpu);
  sides.text("origin", a.origin, b.origin);
  std::map<std::string, std::pair<std::string, std::string>> variables;
  for (const auto& [name, value] : a.variables) {
    variables[name].first = value;
  }
  for (const auto& [name, value] : b.variables) {
    variables[name].second = value;
  }
  for (const auto& [name, values] : variables) {
    sides.text(name, values.first, values.second);
  }
  diff_curves(sides, a, b);
  const auto gemms = [](const Calibration& side) {
    return best_rates(
        side.gemms, [](const GemmPoint& point) { return "best " + point.dtype + " " + point.kind + " product"; },
        [](const GemmPoint& point) { return point.rate.raw(); });
  };
  const auto attention = [](const Calibration& side) {
    return best_rates(
        side.attention, [](const AttentionPoint& point) { return "best attention forward, " + point.kernel; },
        [](const AttentionPoint& point) { return point.forward.raw(); });
  };
  const auto memory = [](const Calibration& side) {
    return best_rates(
        side.memory, [](const MemoryPoint& point) { return "best " + point.kind; },
        [](const MemoryPoint& point) { return point.rate.raw(); });
  };
  diff_rates(sides, DiffUnit::flops_per_second, gemms(a), gemms(b));
  diff_rates(sides, DiffUnit::flops_per_second, attention(a), attention(b));
  diff_rates(sides, DiffUnit::bytes_per_second, memory(a), memory(b));
  sides.known("kernels", "launch_eager_s", "launch, eager", DiffUnit::seconds, a.launch_eager.raw(),
              b.launch_eager.raw());
  sides.known("kernels", "launch_graph_s", "launch, graph", DiffUnit::seconds, a.launch_graph.raw(),
              b.launch_graph.raw());
  sides.known("kernels", "host_to_device_bytes_per_s", "host to device", DiffUnit::bytes_per_second,
              a.host_to_device.raw(), b.host_to_device.raw());
  sides.known("kernels", "device_to_host_bytes_per_s", "device to host", DiffUnit::bytes_per_second,
              a.device_to_host.raw(), b.device_to_host.raw());
  return sides.take("calibrations");
}

}  // namespace tpplan
