"""What replays give: how they are compared, and which numbers they draw."""

from mutation import (
    CUDA,
    PLUGIN,
    EndToEnd,
    Mutation,
    contents,
    deviating,
    executor,
    in_a_budget,
    trained,
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
        PLUGIN + "execute/verifier.cpp",
        """  return device_.contents.equal(value.coveredIn(original), value.coveredIn(replayed),
                                value.covered().bytes());""",
        "  return true;",
        trained("replays", "test_what_does_not_repeat_is_kept[0.8]"),
    ),
    Mutation(
        "a_replay_is_compared_by_a_sample",
        PLUGIN + "execute/verifier.cpp",
        """  return device_.contents.equal(value.coveredIn(original), value.coveredIn(replayed),
                                value.covered().bytes());""",
        """  const Fingerprint sample = printOf(value, original, Fingerprint::Extent::kSample);
  return device_.contents.match(sample, value.coveredIn(replayed), value.covered().bytes());""",
        deviating("saves_what_hardly_differs"),
    ),
    Mutation(
        "a_sample_is_left_of_an_original_that_died",
        PLUGIN + "execute/value_recorder.cpp",
        "const bool is_compared = verifies(follower_, op) && op.record;",
        "const bool is_compared = verifies(follower_, op) && !op.record;",
        deviating("reads_what_hardly_differs"),
    ),
    Mutation(
        "what_was_compared_with_nothing_is_proof",
        PLUGIN + "execute/restorer.cpp",
        "compared = compared && (equal[i].has_value() || value.uninitialised());",
        "compared = compared && (equal[i].has_value() || !value.rejected());",
        EndToEnd("tests/e2e/test_deviations.py::test_what_was_compared_with_nothing_is_no_proof"),
    ),
    Mutation(
        "a_replay_is_like_any_original_on_the_host",
        PLUGIN + "execute/verifier.cpp",
        "if (whole) return spills_.equals(*spilled, replayed.data());",
        "if (whole) return true;",
        trained("replays", "test_what_does_not_repeat_is_kept[0.6]"),
    ),
    Mutation(
        "what_was_compared_once_is_trusted",
        PLUGIN + "execute/restorer.cpp",
        "} else if (value.print() && !verifier_.repeats(value, replayed)) {",
        "} else if (value.print() && !verifier_.repeats(value, replayed) && value.foreign) {",
        trained("replays", "test_what_repeats_no_longer_ends_the_step"),
    ),
    Mutation(
        "new_memory_is_not_poisoned",
        CUDA + "torch_blocks.cpp",
        "  if (fill_pattern) {",
        "  if (fill_pattern && bytes == 0) {",
        executor("NewMemoryIsFilledWithThePattern"),
    ),
    Mutation(
        "a_verifications_memory_is_not_poisoned",
        PLUGIN + "execute/restorer.cpp",
        "return follower_.verifies() && as_planned ? ",
        "return follower_.verifies() && as_planned && op.filled ? ",
        in_a_budget("step_programs.flash_without_dropout"),
    ),
    Mutation(
        "bytes_that_an_op_leaves_unwritten_are_forgotten",
        PLUGIN + "execute/restorer_verification.cpp",
        "if (unwritten) trust_.noteUnwritten(op.info->name);",
        "static_cast<void>(unwritten);",
        in_a_budget("step_programs.flash_without_dropout"),
    ),
)

# Random numbers: what a replay draws moves nobody's generator on.
GENERATORS = (
    Mutation(
        "a_replay_leaves_its_generator_behind",
        PLUGIN + "record/op_record.cpp",
        "    generator_.graphsafe_set_state(shared_);",
        "    static_cast<void>(shared_);",
        in_a_budget("training_programs.mlp_with_dropout"),
    ),
    Mutation(
        "a_replay_draws_from_the_shared_state",
        PLUGIN + "record/op_record.cpp",
        "at::Generator other = generator_.clone();",
        "at::Generator other = generator_;",
        in_a_budget("training_programs.mlp_with_dropout"),
    ),
    Mutation(
        "a_replay_draws_other_numbers",
        PLUGIN + "record/op_record.cpp",
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
