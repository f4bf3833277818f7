#include "clock.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "captures.hpp"
#include "device.hpp"
#include "host_time.hpp"
#include "settings.hpp"

namespace emulated_gpu {
namespace {

constexpr std::size_t kEnds = 1 << 16;  // that a stream remembers

struct Tile {
  double rows, columns;
};

double rateOf(const emulated_gpu_demand& demand) {
  const TimeTable& table = timeTable();
  if (demand.format == emulated_gpu_demand::EMULATED_GPU_HALF) return table.half_rate;
  if (demand.format == emulated_gpu_demand::EMULATED_GPU_TF32) return table.tf32_rate;
  return table.float_rate;
}

// Tiles in waves over the multiprocessors, each computing one at a time. The best of two tiles,
// and of k in parts where there are too few tiles for all, as libraries choose them.
Nanoseconds productTime(const emulated_gpu_demand& demand) {
  const TimeTable& table = timeTable();
  const double part = demand.convolution != 0 ? table.convolution : table.product;
  const double each = part * rateOf(demand) / table.multiprocessors;  // FLOP/ns
  Nanoseconds best = std::numeric_limits<Nanoseconds>::infinity();
  for (const Tile tile : {Tile{128, 256}, Tile{128, 128}}) {
    const double tiles =
        demand.batch * std::ceil(demand.m / tile.rows) * std::ceil(demand.n / tile.columns);
    for (double parts = 1; parts <= 16; parts *= 2) {
      if (parts > 1 && tiles * parts > table.multiprocessors) break;
      const double waves = std::ceil(tiles * parts / table.multiprocessors);
      best = std::min(best, waves * 2 * tile.rows * tile.columns * demand.k / parts / each);
    }
  }
  return best;
}

}  // namespace

const TimeTable& timeTable() {
  static const TimeTable result = [] {
    TimeTable table;
    const double link = settings().host_bytes_per_ns;
    if (settings().timed() && link > 0) {
      table.link_both_ways *= link / table.link;
      table.link = link;
    }
    table.hbm *= settings().hbm_percent / 100.0;
    return table;
  }();
  return result;
}

Nanoseconds kernelTime(const emulated_gpu_demand& demand) {
  if (!settings().timed()) return kernelTime(demand.spanned);
  const TimeTable& table = timeTable();
  Nanoseconds result = kernelTime(demand.bytes);
  if (demand.k > 0) result = std::max(result, productTime(demand));
  if (demand.attention > 0) {
    result = std::max(result, demand.attention / (table.attention * rateOf(demand)));
  }
  return result;
}

Nanoseconds kernelTime(std::size_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (!settings().timed()) return kLaunch + size / 100;
  return std::max(timeTable().floor, size / timeTable().hbm);
}

Nanoseconds deviceCopyTime(std::size_t bytes) {
  if (settings().timed()) return kernelTime(2 * bytes);  // read and written
  return 3000 + static_cast<double>(bytes) / 400;
}

// Not timed: above 100 GB/s it is a link that costs nothing to use.
Nanoseconds hostCopyTime(std::size_t bytes, bool to_host, bool pageable) {
  const auto size = static_cast<double>(bytes);
  const TimeTable& table = timeTable();
  if (!settings().timed()) {
    const double rate = settings().host_bytes_per_ns;
    return (rate > 100 ? 0 : 8000) + size / rate;
  }
  if (!pageable) return table.copy_start + size / table.link;
  return table.copy_start + size / (to_host ? table.to_pageable : table.from_pageable);
}

Nanoseconds spinTime(long long cycles) {
  return static_cast<double>(cycles) / 1.5;
}  // 1.5 GHz

Nanoseconds communicationTime(std::size_t bytes, int ranks) {
  const double share = 1 - 1.0 / std::max(1, ranks);
  return timeTable().collective + share * static_cast<double>(bytes) / timeTable().nccl;
}

Nanoseconds endOf(const CUstream_st& stream, std::uint64_t number) {
  const std::uint64_t first = stream.done - stream.ends.size() + 1;
  if (stream.ends.empty() || number < first) return 0;
  return stream.ends[std::min<std::size_t>(number - first, stream.ends.size() - 1)];
}

void timeTask(CUstream_st& stream, const Task& task) {
  const TimeTable& table = timeTable();
  Device& device = *stream.device;
  const Nanoseconds cost = task.work.cost + (task.graph ? task.graph->cost : 0);
  Nanoseconds& clock = stream.clock;
  if (task.awaited != nullptr) clock = std::max(clock, endOf(*task.awaited, task.awaited_number));
  if (task.awaited == nullptr) clock = std::max(clock, task.asked + table.latency);
  if (task.event && task.event->timed) clock += table.timed_event;
  const Nanoseconds host = HostTime::get().now();
  for (Capacity* const each : {&device.compute, &device.to_device, &device.to_host}) {
    each->forget(host);
  }
  switch (task.work.engine) {
    case Engine::kNone:
      clock += cost;
      break;
    case Engine::kCompute:
      clock = device.compute.take(clock, cost).end;
      device.busy += cost;
      break;
    case Engine::kToDevice:
    case Engine::kToHost: {
      const bool to_host = task.work.engine == Engine::kToHost;
      Capacity& engine = to_host ? device.to_host : device.to_device;
      const Capacity& other = to_host ? device.to_device : device.to_host;
      const double beside = std::min(1.0, table.link_both_ways / table.link - 1);
      const Capacity::Span span = engine.take(clock, cost, &other, beside);
      device.compute.occupy(span, table.link / table.hbm);
      clock = span.end;
      break;
    }
    case Engine::kCommunication: {
      const double share = 1.0 * table.communication_multiprocessors / table.multiprocessors;
      device.compute.occupy({clock, clock + cost}, share);
      clock += cost;
    }
  }
  stream.ends.push_back(clock);
  if (stream.ends.size() > kEnds) stream.ends.pop_front();
}

}  // namespace emulated_gpu
