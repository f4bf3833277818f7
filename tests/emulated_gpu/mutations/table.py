"""Faults put into the product's CUDA side one at a time, and the test that must find each.

`text` stands once in `file`, and `replacement` takes its place. Each entry is a fault that a
change could make: what it does to no program, a test cannot find, and has no place here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class OnGpu:
    """A C++ test on the emulated GPU, in one schedule (docs/gpu.md)."""

    target: str
    test: str  # as --gtest_filter takes it
    schedule: str = "lazy"


@dataclass(frozen=True)
class OnHost:
    """A C++ test that needs no GPU."""

    target: str
    test: str


@dataclass(frozen=True)
class EndToEnd:
    """A test of tests/e2e."""

    test: str  # as pytest takes it


Test = OnGpu | OnHost | EndToEnd


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    text: str
    replacement: str
    test: Test


CUDA = "plugin/src/cuda/"
DRIVER = "allocator/cuda/"
PLUGIN = "plugin/src/"


def executor(test: str, schedule: str = "lazy") -> OnGpu:
    return OnGpu("executor_gpu_test", f"ExecutorGpuTest.{test}", schedule)


def contents(test: str, schedule: str = "lazy") -> OnGpu:
    return OnGpu("executor_gpu_test", f"*DeviceContentsTest.{test}/*", schedule)


def pages(test: str, schedule: str = "lazy") -> OnGpu:
    return OnGpu("gpu_test", f"GpuTest.{test}", schedule)


def allocator(test: str) -> OnHost:
    return OnHost("cuda_adapter_test", test)


def trained(about: str, test: str) -> EndToEnd:
    return EndToEnd(f"tests/e2e/test_gpu_{about}.py::{test}")


def in_a_budget(program: str) -> EndToEnd:
    return trained("bits", f"test_same_bits_in_less_memory[{program}]")


# One stream waits for another.
WAITS = (
    Mutation(
        "a_lane_waits_for_none",
        CUDA + "cuda_lanes.cpp",
        " && succeeded(cudaStreamWaitEvent(second, event, 0));",
        " && second != first;",
        executor("ALaneWaitsForTheOtherThereAndBack"),
    ),
    Mutation(
        "a_copy_out_does_not_wait_for_the_step",
        CUDA + "pinned_spills.cpp",
        """  C10_CUDA_CHECK(cudaStreamWaitEvent(side, buffer.whole, 0));
""",
        "",
        executor("ACopyWaitsForTheStepsKernels"),
    ),
    Mutation(
        "a_slot_is_read_before_it_is_whole",
        CUDA + "pinned_spills.cpp",
        """  C10_CUDA_CHECK(cudaStreamWaitEvent(now, buffer.whole, 0));
""",
        "",
        executor("AFreedBlockIsCopiedBeforeItIsUsedAgain"),
    ),
    Mutation(
        "a_buffer_is_written_before_it_is_read",
        CUDA + "pinned_spills.cpp",
        """  if (buffer.was_read) C10_CUDA_CHECK(cudaStreamWaitEvent(side, buffer.read, 0));
""",
        "",
        executor("ABufferThatIsReadElsewhereIsNotWrittenBefore"),
    ),
    Mutation(
        "a_buffer_waits_for_its_last_reader_only",
        CUDA + "pinned_spills.cpp",
        """  if (buffer.was_read) C10_CUDA_CHECK(cudaStreamWaitEvent(now, buffer.read, 0));
""",
        "",
        executor("ABufferWaitsForEachOfItsReaders"),
    ),
    Mutation(
        "a_block_that_may_be_written_is_copied_later",
        CUDA + "pinned_spills.cpp",
        "if (afterwards == Afterwards::kFreed) {",
        "if (afterwards == Afterwards::kFreed || bytes > 0) {",
        executor("ABlockThatMayBeWrittenIsCopiedAtOnce"),
    ),
    Mutation(
        "values_are_spilled_on_any_lane",
        PLUGIN + "execute/step_eviction.cpp",
        """  const LaneScope lane(device_.lanes, lane_);
""",
        "",
        in_a_budget("device_programs.scratch_on_a_side_stream"),
    ),
    Mutation(
        "sums_are_read_before_they_are_there",
        CUDA + "cuda_contents.cpp",
        """                                               cudaMemcpyDeviceToHost, stream)) &&
                     succeeded(cudaStreamSynchronize(stream));""",
        """                                               cudaMemcpyDeviceToHost, stream));""",
        contents("SeesEachByteThatDiffers"),
    ),
)

# A block is used again when its readers are done.
REUSE = (
    Mutation(
        "a_spilled_block_is_freed_before_its_copy",
        CUDA + "pinned_spills.cpp",
        """    heap_.recordStream(const_cast<void*>(data), side, heap_);
""",
        "",
        executor("AFreedBlockIsCopiedBeforeItIsUsedAgain"),
    ),
    Mutation(
        "a_read_on_another_lane_is_not_recorded",
        CUDA + "cuda_lanes.cpp",
        """  heap_.recordStream(const_cast<void*>(storage.data()),
                     c10::cuda::getCurrentCUDAStream(device_).stream(), heap_);
""",
        "  static_cast<void>(storage);\n",
        executor("ABlockThatIsReadElsewhereIsNotUsedAgainBefore"),
    ),
    Mutation(
        "record_stream_of_no_other_stream",
        CUDA + "device_heap.cpp",
        "if (here && allocator::cuda::handleOf(block->owner.name) == stream) return;",
        "if (here) return;",
        allocator("CudaAllocatorTest.ABlockWaitsForTheStreamThatUsesIt"),
    ),
    Mutation(
        "a_foreign_pools_block_does_not_wait_for_its_event",
        CUDA + "foreign_pools.cpp",
        "if (state == cudaErrorNotReady) return false;",
        "if (state == cudaErrorNotReady) continue;",
        trained("allocator", "test_a_pool_has_an_allocator_of_its_own[lazy]"),
    ),
    Mutation(
        "a_foreign_pools_block_is_used_again_beside_a_graph",
        CUDA + "foreign_pools.cpp",
        "if (block.live || block.captured) return false;",
        "if (block.live) return false;",
        trained("allocator", "test_a_graph_reads_a_block_of_a_pools_own_allocator"),
    ),
    Mutation(
        "another_devices_reader_is_asked_for_here",
        CUDA + "watched_events.cpp",
        "Event event = there->events_->record(",
        "Event event = events_->record(",
        allocator("*OtherDeviceTest.ABlockWaitsForItsStream/*"),
    ),
    Mutation(
        "a_reader_that_is_captured_counts_as_done",
        CUDA + "watched_events.cpp",
        "if (event == Event::kDone || scope == nullptr) return event;",
        "if (event == Event::kDone || event == Event::kNone || scope == nullptr) return event;",
        allocator("CudaAllocatorTest.AStreamThatIsCapturedTellsNothing"),
    ),
    Mutation(
        "a_block_that_waits_for_its_readers_is_ours",
        CUDA + "device_heap_looks.cpp",
        "if (found == blocks.end() || found->second.awaiting) return false;",
        "if (found == blocks.end()) return false;",
        allocator("TrainingTest.AnAwaitingBlockIsNobodys"),
    ),
    Mutation(
        "a_graphs_block_is_ours",
        CUDA + "device_heap_looks.cpp",
        "return owner.pool == c10::MempoolId_t{0, 0} && ",
        "return ",
        allocator("TrainingTest.WhatGraphsMayWriteIsNobodys"),
    ),
    Mutation(
        "another_processs_pages_go_under_a_kernel",
        CUDA + "shared_pages.cpp",
        "if (idle()) pages.release(at, bytes);",
        "if (idle() || bytes > 0) pages.release(at, bytes);",
        allocator("SharedPagesTest.PagesOfAnotherProcessGoWhenTheDeviceIsIdle"),
    ),
    Mutation(
        "an_event_is_done_at_once",
        DRIVER + "stream_events.cpp",
        "  return device_.driver->eventQuery(handleOf(event)) == CUDA_SUCCESS;",
        "  device_.driver->eventQuery(handleOf(event));\n  return true;",
        pages("ABlockWaitsForTheStreamThatReadsIt"),
    ),
    Mutation(
        "pages_move_before_the_device_is_done",
        DRIVER + "stream_events.cpp",
        "done = waitFor(event, most);",
        "done = waitFor(event, 0 * most) || true;",
        pages("PagesGoToAnotherStreamAfterTheWorkThatUsesThem"),
    ),
    Mutation(
        "names_of_graphs_serve_while_replays_run",
        CUDA + "private_pools.cpp",
        "const bool idle = device_is_idle_();",
        "const bool idle = device_is_idle_() || true;",
        allocator("PoolsTest.ANameServesAgainWhenTheDeviceHasBeenIdle"),
    ),
    Mutation(
        "pages_of_a_graph_are_unmapped",
        CUDA + "private_pools.cpp",
        """    keep_(nameOf(*alias), true);
  }
  return""",
        """  }
  return""",
        allocator("PoolsTest.PagesOfAGraphStayMapped"),
    ),
    Mutation(
        "a_foreign_pools_block_is_used_again_early",
        CUDA + "foreign_pools.cpp",
        "if (stream != found->second.stream) found->second.readers.insert({device, stream});",
        "static_cast<void>(stream), static_cast<void>(device);",
        trained("allocator", "test_a_pool_has_an_allocator_of_its_own[lazy]"),
    ),
)

# While a graph is captured the device is asked nothing.
CAPTURES = (
    Mutation(
        "contents_are_asked_for_in_a_capture",
        CUDA + "cuda_contents.cpp",
        """  if (isCaptured(stream)) return std::nullopt;
""",
        "",
        executor("WhileAStreamIsCapturedTheDeviceIsAskedNothing"),
    ),
    Mutation(
        "a_lane_draws_another_into_the_graph",
        CUDA + "cuda_lanes.cpp",
        "!isCaptured(from.stream()) && !isCaptured(to.stream()) &&",
        "!isCaptured(from.stream()) &&",
        executor("WhileAnotherStreamIsCapturedNothingJoinsItsGraph"),
    ),
    Mutation(
        "a_clock_marks_in_a_capture",
        CUDA + "cuda_clock.cpp",
        """  if (isCaptured(stream)) return 0;
""",
        "",
        executor("WhileAStreamIsCapturedTheDeviceIsAskedNothing"),
    ),
    Mutation(
        "values_are_spilled_while_a_graph_is_recorded",
        CUDA + "pinned_spills.cpp",
        "TORCH_CHECK(!heap_.capturing(), ",
        "TORCH_CHECK(true, ",
        executor("WhileAnotherStreamIsCapturedNothingJoinsItsGraph"),
    ),
    Mutation(
        "the_device_is_waited_for_in_a_capture",
        CUDA + "watched_events.cpp",
        """  if (isCapturing()) return false;
""",
        "",
        allocator("CudaAllocatorTest.NothingIsAskedInACapture"),
    ),
    Mutation(
        "a_comparison_ends_another_streams_capture",
        CUDA + "cuda_contents.cpp",
        """  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  const bool known""",
        "  const bool known",
        executor("WhatIsAskedBesideACaptureDoesNotEndIt"),
    ),
    Mutation(
        "a_slots_comparison_ends_another_streams_capture",
        CUDA + "pinned_spills.cpp",
        """  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  const Buffer& buffer""",
        "  const Buffer& buffer",
        executor("WhatIsAskedBesideACaptureDoesNotEndIt"),
    ),
    Mutation(
        "the_rate_of_copies_ends_another_streams_capture",
        CUDA + "pinned_spills.cpp",
        """  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  const auto time""",
        "  const auto time",
        executor("WhatIsAskedBesideACaptureDoesNotEndIt"),
    ),
    Mutation(
        "a_clock_ends_another_streams_capture",
        CUDA + "cuda_clock.cpp",
        """  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  if (""",
        "  if (",
        executor("WhatIsAskedBesideACaptureDoesNotEndIt"),
    ),
    Mutation(
        "an_event_is_recorded_into_a_graph",
        DRIVER + "stream_events.cpp",
        "      capture != CU_STREAM_CAPTURE_STATUS_NONE) {",
        "      false) {",
        pages("NothingIsRecordedIntoAGraph"),
    ),
)

# Replays are compared with the originals, byte by byte.
COMPARISONS = (
    Mutation(
        "what_cannot_be_compared_is_equal",
        CUDA + "cuda_contents.cpp",
        "return sums && (*sums)[0] == 0;",
        "return !sums || (*sums)[0] == 0;",
        executor("WhileAStreamIsCapturedTheDeviceIsAskedNothing"),
    ),
    Mutation(
        "what_cannot_be_summed_is_like_all",
        CUDA + "cuda_contents.cpp",
        "if (!sums) return likeNoOther();",
        "if (!sums) return likeNoOther().low > 0 ? Checksum{} : Checksum{1, 1};",
        executor("WhileAStreamIsCapturedTheDeviceIsAskedNothing"),
    ),
    Mutation(
        "sums_go_on_from_the_last_ones",
        CUDA + "cuda_contents.cpp",
        "succeeded(cudaMemsetAsync(on_device_, 0, sizeof(Sums), stream)) &&",
        "",
        contents("SeesEachByteThatDiffers"),
    ),
    Mutation(
        "the_last_bytes_are_not_compared",
        CUDA + "contents_kernels.cu",
        """  for (Word i = thisThread(); i * 8 < bytes; i += allThreads()) {
    found += wordAt""",
        """  for (Word i = thisThread(); i * 8 + 8 <= bytes; i += allThreads()) {
    found += wordAt""",
        contents("SeesEachByteThatDiffers"),
    ),
    Mutation(
        "a_byte_like_one_pattern_counts_as_unwritten",
        CUDA + "contents_kernels.cu",
        "a != first_pattern || b != second_pattern || !two_patterns;",
        "(a != first_pattern && b != second_pattern) || !two_patterns;",
        contents("AWrittenByteThatLooksLikeOnePatternCounts"),
    ),
    Mutation(
        "only_the_first_part_of_a_slot_is_compared",
        CUDA + "pinned_spills.cpp",
        "for (std::int64_t at = 0; at < slot.bytes; at += kChunkBytes) {",
        "for (std::int64_t at = 0; at < kChunkBytes; at += kChunkBytes) {",
        executor("TheLastByteOfASlotIsCompared"),
    ),
    Mutation(
        "a_replay_is_like_any_original",
        PLUGIN + "execute/step_rehearsal.cpp",
        """  return device_.contents.equal(value.coveredIn(original), value.coveredIn(replayed),
                                value.covered.bytes());""",
        "  return true;",
        trained("replays", "test_what_does_not_repeat_is_kept[0.8]"),
    ),
    Mutation(
        "a_replay_is_like_any_original_on_the_host",
        PLUGIN + "execute/step_rehearsal.cpp",
        "if (whole) return session_.spills().equals(*spilled, replayed.data());",
        "if (whole) return true;",
        trained("replays", "test_what_does_not_repeat_is_kept[0.6]"),
    ),
    Mutation(
        "what_was_compared_once_is_trusted",
        PLUGIN + "execute/step_restore.cpp",
        "} else if (value.print && !repeats(value, replayed)) {",
        "} else if (value.print && !repeats(value, replayed) && value.foreign) {",
        trained("replays", "test_what_repeats_no_longer_ends_the_step"),
    ),
    Mutation(
        "new_memory_is_not_poisoned",
        CUDA + "cuda_allocator.cpp",
        "  if (fill_pattern) {",
        "  if (fill_pattern && bytes == 0) {",
        executor("NewMemoryIsFilledWithThePattern"),
    ),
    Mutation(
        "a_rehearsals_memory_is_not_poisoned",
        PLUGIN + "execute/step_restore.cpp",
        "return comparesAll() && as_planned ? ",
        "return comparesAll() && as_planned && op.filled ? ",
        in_a_budget("step_programs.flash_without_dropout"),
    ),
    Mutation(
        "bytes_that_an_op_leaves_unwritten_are_forgotten",
        PLUGIN + "execute/step_rehearsal.cpp",
        "if (unwritten) session_.noteUnwritten(op.info->name);",
        "static_cast<void>(unwritten);",
        in_a_budget("step_programs.flash_without_dropout"),
    ),
)

# Random numbers: what a replay draws moves nobody's generator on.
GENERATORS = (
    Mutation(
        "a_replay_leaves_its_generator_behind",
        PLUGIN + "record/recipe.cpp",
        "    generator_.graphsafe_set_state(shared_);",
        "    static_cast<void>(shared_);",
        in_a_budget("training_programs.mlp_with_dropout"),
    ),
    Mutation(
        "a_replay_draws_from_the_shared_state",
        PLUGIN + "record/recipe.cpp",
        "at::Generator other = generator_.clone();",
        "at::Generator other = generator_;",
        in_a_budget("training_programs.mlp_with_dropout"),
    ),
    Mutation(
        "a_replay_draws_other_numbers",
        PLUGIN + "record/recipe.cpp",
        "if (state.defined()) other.set_state(state);",
        "",
        trained("replays", "test_replays_draw_what_their_ops_drew"),
    ),
    Mutation(
        "a_replay_takes_the_programs_generator",
        CUDA + "cuda_random.cpp",
        """  return at::globalContext()
      .getAcceleratorHooksInterface(c10::kCUDA)
      .getNewGenerator(device_.index());""",
        "  return at::globalContext().defaultGenerator(device_);",
        executor("AGeneratorThatIsMadeIsNobodyElses"),
    ),
)

# The budget, and what counts in it.
BUDGET = (
    Mutation(
        "others_do_not_count_in_the_budget",
        CUDA + "device_heap.cpp",
        "memory_->setMargin(isBounded() ? others : 0);",
        "memory_->setMargin(isBounded() ? 0 * others : 0);",
        allocator("CudaAllocatorTest.WhatOthersHoldIsOfTheBudget"),
    ),
    Mutation(
        "others_are_looked_at_too_late",
        CUDA + "device_heap.cpp",
        "now - measured_at_ns_.load(std::memory_order_relaxed) < measure_every_ns_",
        "now - measured_at_ns_.load(std::memory_order_relaxed) >= 0",
        allocator("CudaAllocatorTest.OthersAreLookedAtBeforePagesAreMapped"),
    ),
    Mutation(
        "pages_that_come_count_as_mapped",
        CUDA + "device_heap.cpp",
        "setMarginBytes(lookAtOthers(bytes));",
        "setMarginBytes(lookAtOthers(0 * bytes));",
        allocator("CudaAllocatorTest.OthersAreLookedAtBeforePagesAreMapped"),
    ),
    Mutation(
        "a_step_may_go_over_without_bound",
        CUDA + "device_heap.cpp",
        "std::max<Bytes>(0, *budgetFacts().available_bytes - others_bytes_)",
        "kUnlimited",
        allocator("CudaAllocatorTest.ABudgetMayBeExceededUntilItIsJudged"),
    ),
    Mutation(
        "a_device_that_nobody_judges_goes_over",
        CUDA + "cuda_allocator.cpp",
        "if (&heap != trained) heap.memory().limitOverrun(0);",
        "static_cast<void>(heap), static_cast<void>(trained);",
        allocator("CudaAllocatorTest.NobodyJudgesAnOpenDeviceThatIsNotTrainedOn"),
    ),
    Mutation(
        "a_budget_binds_before_it_is_judged",
        CUDA + "offer.cpp",
        "    allocator->letGoOver();",
        "    static_cast<void>(allocator);",
        trained(
            "budget",
            "test_the_budget_that_a_refusal_names_trains[training_programs.mlp_with_dropout]",
        ),
    ),
    Mutation(
        "pages_of_a_refused_request_stay_mapped",
        DRIVER + "address_space.cpp",
        """  if (done > 0) unmap(begin, done);
""",
        "",
        pages("MoreThanTheDeviceHasIsRefusedWhole"),
    ),
    Mutation(
        "the_budget_chooses_a_convolutions_workspace",
        CUDA + "cuda_allocator.cpp",
        "*largest = static_cast<std::size_t>(on.totalBytes());",
        "*largest = static_cast<std::size_t>(on.memory().ledger().budgetBytes());",
        allocator("CudaAllocatorTest.TheLargestWorkspaceIsThatOfAnIdleDevice"),
    ),
    Mutation(
        "pinned_memory_grows_beyond_the_ranks_share",
        CUDA + "pinned_spills.cpp",
        "  TORCH_CHECK(pinned_bytes_ <= most_bytes_ - room_bytes, ",
        "  TORCH_CHECK(pinned_bytes_ <= most_bytes_, ",
        executor("PinnedMemoryStaysWithinTheRanksShare"),
    ),
)

# When values go to the host, and whether anything goes at all.
PLANS = (
    Mutation(
        "no_copy_is_timed_once_its_slot_is_free",
        CUDA + "pinned_spills.cpp",
        """  for (auto& [room, buffer] : free_) time(buffer);
""",
        "",
        executor("TheRateIsThatOfCopiesWhoseValuesAreBack"),
    ),
    Mutation(
        "a_warm_up_on_a_side_stream_ends_dropping",
        PLUGIN + "execute/step_lanes.cpp",
        """  if (!touches) return;
""",
        "",
        in_a_budget("device_programs.graphed_callables"),
    ),
    Mutation(
        "a_step_on_two_streams_goes_on_dropping",
        PLUGIN + "execute/step_lanes.cpp",
        """  keepEverything("a step uses more than one stream of the GPU");
""",
        "",
        trained("budget", "test_a_budget_that_nobody_can_judge_is_a_bound"),
    ),
)

MUTATIONS: tuple[Mutation, ...] = (
    *WAITS,
    *REUSE,
    *CAPTURES,
    *COMPARISONS,
    *GENERATORS,
    *BUDGET,
    *PLANS,
)
