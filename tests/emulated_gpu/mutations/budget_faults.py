"""What holds the budget, and what plans rest on."""

from mutation import (
    CUDA,
    DRIVER,
    PLUGIN,
    Mutation,
    allocator,
    executor,
    in_a_budget,
    pages,
    trained,
)

# The budget, and what counts in it.
BUDGET = (
    Mutation(
        "others_do_not_count_in_the_budget",
        CUDA + "device_budget.cpp",
        "memory_.setMargin(isBounded() ? others : 0);",
        "memory_.setMargin(isBounded() ? 0 * others : 0);",
        allocator("CudaAllocatorTest.WhatOthersHoldIsOfTheBudget"),
    ),
    Mutation(
        "others_are_looked_at_too_late",
        CUDA + "device_budget.cpp",
        "now - measured_at_ns_.load(std::memory_order_relaxed) < measure_every_ns_",
        "now - measured_at_ns_.load(std::memory_order_relaxed) >= 0",
        allocator("CudaAllocatorTest.OthersAreLookedAtBeforePagesAreMapped"),
    ),
    Mutation(
        "pages_that_come_count_as_mapped",
        CUDA + "device_budget.cpp",
        "setMarginBytes(lookAtOthers(debited_bytes));",
        "setMarginBytes(lookAtOthers(0 * debited_bytes));",
        allocator("CudaAllocatorTest.OthersAreLookedAtBeforePagesAreMapped"),
    ),
    Mutation(
        "a_step_may_go_over_without_bound",
        CUDA + "device_budget.cpp",
        "std::max<Bytes>(0, *facts().available_bytes - others_bytes_)",
        "kUnlimited",
        allocator("CudaAllocatorTest.ABudgetMayBeExceededUntilItIsJudged"),
    ),
    Mutation(
        "a_device_that_nobody_judges_goes_over",
        CUDA + "device_heaps.cpp",
        "if (&heap != trained) heap.memory().limitOverrun(0);",
        "static_cast<void>(heap), static_cast<void>(trained);",
        allocator("CudaAllocatorTest.NobodyJudgesAnOpenDeviceThatIsNotTrainedOn"),
    ),
    Mutation(
        "a_budget_binds_before_it_is_judged",
        CUDA + "offer.cpp",
        "    blocks->heaps().letGoOver();",
        "    static_cast<void>(blocks);",
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
        CUDA + "devices_adapter.cpp",
        "*largest = static_cast<std::size_t>(on.budget().totalBytes());",
        "*largest = static_cast<std::size_t>(on.memory().budgetTracker().budgetBytes());",
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
        PLUGIN + "execute/step_run.cpp",
        """  if (!touches) return;
""",
        "",
        in_a_budget("device_programs.graphed_callables"),
    ),
    Mutation(
        "a_step_on_two_streams_goes_on_dropping",
        PLUGIN + "execute/step_run.cpp",
        """  kept_values_.keepEverything("a step uses more than one stream of the GPU");
""",
        "",
        trained("budget", "test_a_budget_that_nobody_can_judge_is_a_bound"),
    ),
)
