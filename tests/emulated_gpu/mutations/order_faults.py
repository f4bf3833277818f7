"""What happens in another order: waits, blocks that are used again, captures."""

from mutation import (
    CUDA,
    DRIVER,
    PLUGIN,
    Mutation,
    allocator,
    contents,
    executor,
    in_a_budget,
    pages,
    trained,
)

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
        PLUGIN + "execute/evictor.cpp",
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
        CUDA + "heap_ledger.cpp",
        "if (here && allocator::cuda::handleOf(block->owner.name) == stream) return false;",
        "if (static_cast<void>(stream), here) return false;",
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
        CUDA + "heap_ledger.cpp",
        "if (found == blocks.end() || found->second.awaiting) return false;",
        "if (found == blocks.end()) return false;",
        allocator("TrainingTest.AnAwaitingBlockIsNobodys"),
    ),
    Mutation(
        "a_graphs_block_is_ours",
        CUDA + "heap_ledger.cpp",
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
        "  return device_.driver->events.query(handleOf(event)) == CUDA_SUCCESS;",
        "  device_.driver->events.query(handleOf(event));\n  return true;",
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
