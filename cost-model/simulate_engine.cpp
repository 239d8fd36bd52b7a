#include "cost-model/simulate_engine.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace tpplan {

OperationGraph::Index OperationGraph::add_stream() {
  last_of_stream_.push_back(kNone);
  return static_cast<Index>(last_of_stream_.size() - 1);
}

OperationGraph::Index OperationGraph::add_link(BytesPerSecond capacity) {
  links_.push_back(capacity.raw());
  return static_cast<Index>(links_.size() - 1);
}

OperationGraph::Index OperationGraph::add(Index stream, Seconds time) {
  return add_flow(stream, time, Bytes(0), kNone, kNone);
}

OperationGraph::Index OperationGraph::add_flow(Index stream, Seconds latency, Bytes bytes, Index from, Index to) {
  const auto index = static_cast<Index>(operations_.size());
  Operation operation;
  operation.time = latency.raw();
  operation.bytes = bytes.raw();
  operation.stream = stream;
  operation.from = from == kNone ? to : from;
  operation.to = from == kNone || from == to ? kNone : to;
  if (operation.from == kNone) {
    operation.bytes = 0;
  }
  operations_.push_back(operation);
  if (last_of_stream_[stream] != kNone) {
    operations_[last_of_stream_[stream]].next = index;
  }
  last_of_stream_[stream] = index;
  return index;
}

Simulation::Simulation(const OperationGraph& graph) : graph_(graph) {
  const std::size_t operations = graph.operations_.size();
  const std::size_t streams = graph.streams();
  first_successor_.assign(operations + 1, 0);
  waits_at_start_.assign(operations, 0);
  for (const auto& dependency : graph.dependencies_) {
    ++first_successor_[dependency.earlier + 1];
    ++waits_at_start_[dependency.later];
  }
  for (std::size_t i = 1; i <= operations; ++i) {
    first_successor_[i] += first_successor_[i - 1];
  }
  successors_.resize(graph.dependencies_.size());
  std::vector<Index> fill(first_successor_.begin(), first_successor_.end() - 1);
  for (const auto& dependency : graph.dependencies_) {
    successors_[fill[dependency.earlier]++] = dependency.later;
  }
  for (const auto& operation : graph.operations_) {
    if (operation.next != kNone) {
      ++waits_at_start_[operation.next];
    }
  }
  waits_ = waits_at_start_;
  timeline_.start.assign(operations, 0);
  timeline_.end.assign(operations, 0);
  heap_.reserve(streams);
  position_.assign(streams, kNone);
  running_.assign(streams, kNone);
  due_.assign(streams, 0);
  flows_.resize(streams);
  links_.resize(graph.links_.size());
  for (auto& link : links_) {
    link.flows.reserve(streams);
  }
  near_links_.reserve(links_.size());
  near_flows_.reserve(streams);
}

const Timeline& Simulation::run() {
  std::copy(waits_at_start_.begin(), waits_at_start_.end(), waits_.begin());
  now_ = 0;
  timeline_.makespan = 0;
  timeline_.events = 0;
  std::size_t done = 0;
  for (Index i = 0; i < graph_.operations_.size(); ++i) {
    if (waits_at_start_[i] == 0) {
      start(i);
    }
  }
  while (!heap_.empty()) {
    const Index stream = pop();
    now_ = due_[stream];
    const Index operation = running_[stream];
    if (graph_.operations_[operation].bytes > 0) {
      if (!flows_[stream].moving) {
        begin_flow(stream);
        continue;
      }
      end_flow(stream);
    }
    finish(operation);
    ++done;
  }
  if (done != graph_.operations_.size()) {
    throw std::invalid_argument("operations wait for each other in a circle");
  }
  timeline_.makespan = now_;
  return timeline_;
}

void Simulation::start(Index index) {
  const auto& operation = graph_.operations_[index];
  timeline_.start[index] = now_;
  ++timeline_.events;
  running_[operation.stream] = index;
  flows_[operation.stream].moving = false;
  push(operation.stream, now_ + operation.time);
}

void Simulation::finish(Index index) {
  timeline_.end[index] = now_;
  ++timeline_.events;
  const Index next = graph_.operations_[index].next;
  if (next != kNone) {
    release(next);
  }
  for (Index i = first_successor_[index]; i < first_successor_[index + 1]; ++i) {
    release(successors_[i]);
  }
}

void Simulation::release(Index operation) {
  if (--waits_[operation] == 0) {
    start(operation);
  }
}

void Simulation::begin_flow(Index stream) {
  auto& flow = flows_[stream];
  flow.operation = running_[stream];
  flow.moving = true;
  const auto& operation = graph_.operations_[flow.operation];
  flow.left = operation.bytes;
  flow.rate = 0;
  flow.since = now_;
  push(stream, std::numeric_limits<double>::infinity());
  for (const Index link : {operation.from, operation.to}) {
    if (link != kNone) {
      links_[link].flows.push_back(stream);
    }
  }
  share(operation.from, operation.to);
}

void Simulation::end_flow(Index stream) {
  const auto& operation = graph_.operations_[flows_[stream].operation];
  flows_[stream].moving = false;
  for (const Index link : {operation.from, operation.to}) {
    if (link != kNone) {
      auto& flows = links_[link].flows;
      flows.erase(std::find(flows.begin(), flows.end(), stream));
    }
  }
  share(operation.from, operation.to);
}

void Simulation::collect(Index index) {
  auto& link = links_[index];
  if (link.seen == stamp_) {
    return;
  }
  link.seen = stamp_;
  link.left = graph_.links_[index];
  link.open = static_cast<std::uint32_t>(link.flows.size());
  near_links_.push_back(index);
}

void Simulation::settle(Index stream, double rate) {
  auto& flow = flows_[stream];
  const auto& operation = graph_.operations_[flow.operation];
  flow.left = std::max(0.0, flow.left - flow.rate * (now_ - flow.since));
  flow.since = now_;
  flow.rate = rate;
  flow.settled = true;
  for (const Index link : {operation.from, operation.to}) {
    if (link != kNone) {
      links_[link].left -= rate;
      --links_[link].open;
    }
  }
  move(stream, rate > 0 ? now_ + flow.left / rate : std::numeric_limits<double>::infinity());
}

void Simulation::share(Index from, Index to) {
  ++stamp_;
  near_links_.clear();
  near_flows_.clear();
  for (const Index link : {from, to}) {
    if (link != kNone) {
      collect(link);
    }
  }
  for (std::size_t i = 0; i < near_links_.size(); ++i) {
    for (const Index stream : links_[near_links_[i]].flows) {
      auto& flow = flows_[stream];
      if (flow.seen == stamp_) {
        continue;
      }
      flow.seen = stamp_;
      flow.settled = false;
      near_flows_.push_back(stream);
      const auto& operation = graph_.operations_[flow.operation];
      for (const Index link : {operation.from, operation.to}) {
        if (link != kNone) {
          collect(link);
        }
      }
    }
  }
  for (std::size_t open = near_flows_.size(); open > 0;) {
    Index tightest = kNone;
    double least = std::numeric_limits<double>::infinity();
    for (const Index index : near_links_) {
      const auto& link = links_[index];
      if (link.open > 0 && link.left / link.open < least) {
        least = link.left / link.open;
        tightest = index;
      }
    }
    // Rounding must not leave a flow without any rate.
    least = std::max(least, graph_.links_[tightest] * 1e-9);
    for (const Index stream : links_[tightest].flows) {
      if (!flows_[stream].settled) {
        settle(stream, least);
        --open;
      }
    }
  }
}

bool Simulation::before(Index a, Index b) const {
  return due_[a] != due_[b] ? due_[a] < due_[b] : running_[a] < running_[b];
}

void Simulation::push(Index stream, double time) {
  due_[stream] = time;
  heap_.push_back(stream);
  position_[stream] = static_cast<Index>(heap_.size() - 1);
  sift_up(heap_.size() - 1);
}

void Simulation::move(Index stream, double time) {
  due_[stream] = time;
  sift_up(position_[stream]);
  sift_down(position_[stream]);
}

OperationGraph::Index Simulation::pop() {
  const Index top = heap_.front();
  heap_.front() = heap_.back();
  position_[heap_.front()] = 0;
  heap_.pop_back();
  if (!heap_.empty()) {
    sift_down(0);
  }
  return top;
}

void Simulation::sift_up(std::size_t at) {
  const Index stream = heap_[at];
  while (at > 0) {
    const std::size_t parent = (at - 1) / 2;
    if (!before(stream, heap_[parent])) {
      break;
    }
    heap_[at] = heap_[parent];
    position_[heap_[at]] = static_cast<Index>(at);
    at = parent;
  }
  heap_[at] = stream;
  position_[stream] = static_cast<Index>(at);
}

void Simulation::sift_down(std::size_t at) {
  const Index stream = heap_[at];
  for (std::size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) {
      ++child;
    }
    if (!before(heap_[child], stream)) {
      break;
    }
    heap_[at] = heap_[child];
    position_[heap_[at]] = static_cast<Index>(at);
    at = child;
  }
  heap_[at] = stream;
  position_[stream] = static_cast<Index>(at);
}

}  // namespace tpplan
