// What a kernel, a copy, a call and a wait cost: the one table of the virtual clock. Nanoseconds,
// bytes, FLOP. A change of it re-runs the plain baseline of `./dev bench emulated-gpu` in the same
// commit. Where a value comes from:
//
// [sheet]    NVIDIA's public data sheet of the H100 SXM
// [H200]     measured: docs/results/2026-11-27-h200-budgets.md, "What CUDA's calls cost"
// [public]   a public table of attainable rates: 794.5 of 989.4 TFLOP/s for bfloat16 products; the
//            abstract of FlashAttention-3: 35 % of the peak for FlashAttention-2
// [assumed]  nobody has measured it
#pragma once

#include <cstddef>

namespace emulated_gpu {

using Nanoseconds = double;

struct TimeTable {
  // --- calls, of the host
  Nanoseconds launch = 5'100;              // [H200] 5.1 µs
  Nanoseconds copy = 2'500;                // [assumed], see copy_start
  Nanoseconds event_record = 320;          // [H200]
  Nanoseconds event_record_timed = 1'500;  // [H200]
  Nanoseconds event_life = 220;            // [H200] created and destroyed: 0.44 µs
  Nanoseconds event_wait = 310;            // [H200] a stream's
  Nanoseconds event_query = 340;           // [H200] done; 270 where it is not
  Nanoseconds stream_query = 420;          // [H200]
  Nanoseconds capture_status = 85;         // [H200]
  Nanoseconds memory_info = 7'000;         // [H200]
  Nanoseconds page_created = 13'700;       // [H200] of 2 MiB, as the next four
  Nanoseconds page_mapped = 1'100;
  Nanoseconds page_access = 32'800;
  Nanoseconds page_unmapped = 22'100;
  Nanoseconds page_released = 16'200;
  Nanoseconds pinned_byte = 0.68e9 / (1 << 30);  // [H200] cudaHostAlloc: 0.68 s/GiB
  // From the launch's return to the kernel's start. With `wake` and the floor of an empty kernel
  // (1.3 µs there) it makes 10.5 µs of a launch and a wait: 5.1 + 3 + 1.3 + 1.1. [H200]
  Nanoseconds latency = 3'000;
  Nanoseconds wake = 1'100;   // from the end of what the host waits for to its return
  std::size_t queue = 1'000;  // launches that a busy stream holds. [H200] 1,021

  // --- kernels
  Nanoseconds floor = 2'000;  // [assumed] of a kernel that computes; an empty one 1.3 µs [H200]
  Nanoseconds timed_event = 2'100;  // [H200] of its stream: 3.4 - 1.3 µs
  double hbm = 0.90 * 3'350;        // bytes/ns. [sheet], 0.90 [assumed]; a copy on an H200 had 0.84
  int multiprocessors = 132;        // [sheet]
  double half_rate = 989'400, tf32_rate = 494'700, float_rate = 66'900;  // FLOP/ns. [sheet]
  double product = 0.80;  // of these rates, at whole waves. [public]
  // Of a convolution computed as a product. [assumed]: with it a step of ResNet-50 takes 47 ms, on
  // an H100 65 (docs/results/2026-11-27-h100.md).
  double convolution = 0.35;
  double attention = 0.35;  // [public]
  int communication_multiprocessors =
      20;  // of a NCCL kernel, waiting included: DeepSeek-V3's report

  // --- the link to the host, bytes/ns
  double link = 55.3;                              // [H200] to the device; 55.2 to the host
  double link_both_ways = 99.0;                    // [H200] together
  double from_pageable = 6.7, to_pageable = 10.6;  // [H200] the host waits
  std::size_t staged = 64 << 10;  // so much of pageable memory goes without a wait. CUDA's guide
  // A copy's own time on its engine. 16 bytes to the host, waited for, take 7.9 µs [H200]:
  // 2.5 + 3 + 1.3 + 1.1.
  Nanoseconds copy_start = 1'300;

  // --- between devices
  double nccl = 360;                // bytes/ns of an all-reduce's share, [assumed]
  Nanoseconds collective = 20'000;  // [assumed]
};

// With what the environment scales (settings.hpp): the link, HBM.
const TimeTable& timeTable();

}  // namespace emulated_gpu
