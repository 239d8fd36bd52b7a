#include "cost-model/simulate_engine.h"

#include <algorithm>
#include <stdexcept>

namespace tpplan {

void DueTable::reset(std::size_t players) {
  leaves_ = 1;
  while (leaves_ < players) {
    leaves_ *= 2;
  }
  due_.assign(leaves_, kNever);
  winners_.assign(2 * leaves_, 0);
  for (std::size_t i = 0; i < leaves_; ++i) {
    winners_[leaves_ + i] = static_cast<std::uint32_t>(i);
  }
  for (std::size_t node = leaves_ - 1; node > 0; --node) {
    winners_[node] = winners_[2 * node];
  }
}

void DueTable::set(std::uint32_t player, double due) {
  due_[player] = due;
  for (std::size_t node = (leaves_ + player) / 2; node > 0; node /= 2) {
    const std::uint32_t left = winners_[2 * node];
    const std::uint32_t right = winners_[2 * node + 1];
    const std::uint32_t winner = due_[right] < due_[left] ? right : left;
    if (winner != player && winner == winners_[node]) {
      return;
    }
    winners_[node] = winner;
  }
}

void LaneEngine::clear() {
  lane_count_ = 0;
  link_count_ = 0;
  kinds_.clear();
}

LaneEngine::Index LaneEngine::add_lane() {
  if (lane_count_ == lanes_.size()) {
    lanes_.emplace_back();
  }
  Lane& lane = lanes_[lane_count_];
  lane.operations.clear();
  lane.partner = kNone;
  return static_cast<Index>(lane_count_++);
}

LaneEngine::Index LaneEngine::add_link(BytesPerSecond capacity) {
  if (link_count_ == links_.size()) {
    links_.emplace_back();
  }
  links_[link_count_].capacity = capacity.raw();
  return static_cast<Index>(link_count_++);
}

LaneEngine::Index LaneEngine::add_flow_kind(const FlowKind& kind) {
  kinds_.push_back(kind);
  return static_cast<Index>(kinds_.size() - 1);
}

void LaneEngine::couple(Index lane, Index partner, double share) {
  lanes_[lane].partner = partner;
  lanes_[partner].partner = lane;
  lanes_[lane].slow = 1 / (1 + share);
  lanes_[partner].slow = 1 / (1 + share);
}

LaneEngine::Index LaneEngine::add(Index lane, const Operation& operation) {
  auto& operations = lanes_[lane].operations;
  operations.push_back(operation);
  if (operation.flow != kNone && operation.amount <= 0) {
    operations.back().flow = kNone;
  }
  return static_cast<Index>(operations.size() - 1);
}

double LaneEngine::run() {
  now_ = 0;
  events_ = 0;
  stamp_ = 0;
  due_.reset(lane_count_);
  for (std::size_t i = 0; i < lane_count_; ++i) {
    Lane& lane = lanes_[i];
    lane.done = 0;
    lane.first_waiter = kNone;
    lane.running = false;
    lane.moving = false;
    lane.seen = 0;
  }
  for (std::size_t i = 0; i < link_count_; ++i) {
    links_[i].seen = 0;
    links_[i].flows.clear();
    links_[i].flows.reserve(lane_count_);
  }
  near_links_.reserve(link_count_);
  near_flows_.reserve(lane_count_);
  for (Index lane = 0; lane < lane_count_; ++lane) {
    advance(lane);
  }
  for (Index lane = due_.first(); due_.due(lane) < DueTable::kNever; lane = due_.first()) {
    now_ = due_.due(lane);
    const Lane& due = lanes_[lane];
    if (due.operations[due.done].flow != kNone && !due.moving) {
      begin_flow(lane);
    } else {
      finish(lane);
    }
  }
  for (std::size_t i = 0; i < lane_count_; ++i) {
    if (lanes_[i].done < lanes_[i].operations.size()) {
      throw std::invalid_argument("operations wait for each other in a circle");
    }
  }
  return now_;
}

double LaneEngine::pace(const Lane& lane) const {
  return lane.partner != kNone && lanes_[lane.partner].running ? lane.slow : 1;
}

/// Starts the next operation of a lane that runs none, or notes what it waits for.
void LaneEngine::advance(Index index) {
  Lane& lane = lanes_[index];
  if (lane.done == lane.operations.size()) {
    stop(index);
    return;
  }
  Operation& next = lane.operations[lane.done];
  for (const After& after : next.after) {
    if (after.lane != kNone && lanes_[after.lane].done < after.count) {
      lane.next_waiter = lanes_[after.lane].first_waiter;
      lanes_[after.lane].first_waiter = index;
      stop(index);
      return;
    }
  }
  next.start = now_;
  begin(index);
}

void LaneEngine::begin(Index index) {
  Lane& lane = lanes_[index];
  const Operation& operation = lane.operations[lane.done];
  ++events_;
  lane.left = operation.flow == kNone ? operation.amount : kinds_[operation.flow].latency.raw();
  lane.since = now_;
  if (lane.partner == kNone) {
    lane.running = true;
    lane.rate = 1;
    due_.set(index, now_ + lane.left);
    return;
  }
  if (!lane.running) {
    lane.running = true;
    change_pace(lane.partner);
  }
  lane.rate = pace(lane);
  due_.set(index, now_ + lane.left / lane.rate);
}

void LaneEngine::stop(Index index) {
  Lane& lane = lanes_[index];
  due_.set(index, DueTable::kNever);
  if (lane.running) {
    lane.running = false;
    if (lane.partner != kNone) {
      change_pace(lane.partner);
    }
  }
}

/// The partner of a running lane has started or stopped.
void LaneEngine::change_pace(Index index) {
  Lane& lane = lanes_[index];
  if (!lane.running) {
    return;
  }
  if (lane.moving) {
    share(kind_of(lane));
    return;
  }
  lane.left = std::max(0.0, lane.left - lane.rate * (now_ - lane.since));
  lane.since = now_;
  lane.rate = pace(lane);
  due_.set(index, now_ + lane.left / lane.rate);
}

void LaneEngine::finish(Index index) {
  Lane& lane = lanes_[index];
  lane.operations[lane.done].end = now_;
  ++events_;
  if (lane.moving) {
    end_flow(index);
  }
  ++lane.done;
  advance(index);
  wake(index);
}

void LaneEngine::wake(Index index) {
  Index waiter = lanes_[index].first_waiter;
  lanes_[index].first_waiter = kNone;
  while (waiter != kNone) {
    const Index next = lanes_[waiter].next_waiter;
    advance(waiter);
    waiter = next;
  }
}

const LaneEngine::FlowKind& LaneEngine::kind_of(const Lane& lane) const {
  return kinds_[lane.operations[lane.done].flow];
}

double LaneEngine::most_of(const Lane& lane) const { return kind_of(lane).most.raw() * pace(lane); }

void LaneEngine::begin_flow(Index index) {
  Lane& lane = lanes_[index];
  lane.moving = true;
  lane.left = lane.operations[lane.done].amount;
  lane.rate = 0;
  lane.since = now_;
  const FlowKind& kind = kind_of(lane);
  bool alone = true;
  for (const Index link : {kind.from, kind.to}) {
    if (link != kNone) {
      alone = alone && links_[link].flows.empty();
      links_[link].flows.push_back(index);
    }
  }
  if (!alone) {
    share(kind);
    return;
  }
  lane.rate = most_of(lane);
  for (const Index link : {kind.from, kind.to}) {
    lane.rate = link != kNone ? std::min(lane.rate, links_[link].capacity) : lane.rate;
  }
  due_.set(index, now_ + lane.left / lane.rate);
}

void LaneEngine::end_flow(Index index) {
  Lane& lane = lanes_[index];
  lane.moving = false;
  const FlowKind& kind = kind_of(lane);
  bool alone = true;
  for (const Index link : {kind.from, kind.to}) {
    if (link != kNone) {
      auto& flows = links_[link].flows;
      flows.erase(std::find(flows.begin(), flows.end(), index));
      alone = alone && flows.empty();
    }
  }
  if (!alone) {
    share(kind);
  }
}

void LaneEngine::collect(Index index) {
  Link& link = links_[index];
  if (link.seen == stamp_) {
    return;
  }
  link.seen = stamp_;
  link.left = link.capacity;
  link.open = static_cast<std::uint32_t>(link.flows.size());
  near_links_.push_back(index);
}

void LaneEngine::settle(Index index, double rate) {
  Lane& lane = lanes_[index];
  lane.left = std::max(0.0, lane.left - lane.rate * (now_ - lane.since));
  lane.since = now_;
  lane.rate = rate;
  lane.settled = true;
  const FlowKind& kind = kind_of(lane);
  for (const Index link : {kind.from, kind.to}) {
    if (link != kNone) {
      links_[link].left -= rate;
      --links_[link].open;
    }
  }
  due_.set(index, now_ + lane.left / rate);
}

/// Rates of all flows that are connected with a kind's links.
void LaneEngine::share(const FlowKind& changed) {
  ++stamp_;
  near_links_.clear();
  near_flows_.clear();
  for (const Index link : {changed.from, changed.to}) {
    if (link != kNone) {
      collect(link);
    }
  }
  for (std::size_t i = 0; i < near_links_.size(); ++i) {
    for (const Index flow : links_[near_links_[i]].flows) {
      Lane& lane = lanes_[flow];
      if (lane.seen == stamp_) {
        continue;
      }
      lane.seen = stamp_;
      lane.settled = false;
      near_flows_.push_back(flow);
      const FlowKind& kind = kind_of(lane);
      for (const Index link : {kind.from, kind.to}) {
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
      const Link& link = links_[index];
      if (link.open > 0 && link.left / link.open < least) {
        least = link.left / link.open;
        tightest = index;
      }
    }
    // Rounding must not leave a flow without any rate.
    least = std::max(least, links_[tightest].capacity * 1e-9);
    // A flow that takes less than its share leaves the rest to the others, so it comes first.
    Index modest = kNone;
    double most = least;
    for (const Index flow : near_flows_) {
      if (!lanes_[flow].settled && most_of(lanes_[flow]) < most) {
        most = most_of(lanes_[flow]);
        modest = flow;
      }
    }
    if (modest != kNone) {
      settle(modest, most);
      --open;
      continue;
    }
    for (const Index flow : links_[tightest].flows) {
      if (!lanes_[flow].settled) {
        settle(flow, least);
        --open;
      }
    }
  }
}

}  // namespace tpplan
