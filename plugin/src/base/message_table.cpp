#include "base/message_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace ebbtide::plugin {
namespace {

constexpr std::string_view kGap = "…";

constexpr auto kMessages = std::to_array<Message>({
    {"EB01", "… (torch …): …",
     "a run's first line, of each rank: the version, the budget, where the run can "
     "be seen",
     "nothing"},
    {"EB02", "plan by … in …",
     "a plan is made, and no better one is searched for: its peak, and what it costs. Said of "
     "the first programs; of the others with `EBBTIDE_LOG=debug`",
     "nothing"},
    {"EB03", "ended after …",
     "the run's last line: the median step time, the peak, and what the budget cost. `spilling "
     "wrote` names the bytes that steps wrote beside their plan, or without one. Without a budget "
     "it names two: one for half of the activations, and the smallest one. Beside each is the "
     "time that it adds, by a plan that is found quickly. `each step writes to disk` (on a "
     "GPU `copies to the host`) stands there where replays alone do not fit. Rank 0 says it; "
     "others of its machine do where their peak differs by more than 5 % of the budget. A lower "
     "peak of a rank with fewer than half as many steps is not named: it may still rise",
     "nothing"},
    {"EB04", "nothing to do so far",
     "once the budget is judged: steps fit into it, and nothing is dropped",
     "nothing, or the lower budget that it names, for a larger batch"},
    {"EB05", "the program, before its first step, needed at least …",
     "loading took more than the budget, and more than any step so far; nothing can "
     "be dropped then",
     "load in pieces, or wait for the error that names the budget"},
    {"EB06", "step … needed at least …, more than the budget of …",
     "the budget is [too small](#when-the-budget-is-too-small); the next steps find "
     "the one that trains",
     "wait for the error that names it. None comes where steps that begin with less "
     "hold the budget"},
    {"EB07", "step … went over the budget of …",
     "the same: what the step needed is not more than the budget, but it did not "
     "fit into it",
     "wait for the error that names it"},
    {"EB72", "step … went over the budget of … again",
     "steps went over the budget, later ones began with less and held it, and now one went "
     "over it again. The named need counts all these steps",
     "wait for the error that names the budget that trains"},
    {"EB08", "what lives when a step begins has grown from …",
     "more is kept: from step to step (a history, a list of outputs), or at once and now and then "
     "(a second network, copies of weights); where it is known, it names the op that made it",
     "nothing, or keep less; if memory runs out, the error names a budget for more "
     "such steps"},
    {"EB09", "…out of memory. … it is too small for this program",
     "an error: even with everything on the host a step does not fit",
     "use the budget it names, or a smaller batch"},
    {"EB10", "the budget of … is below what the best plan needs",
     "no plan fits the budget. So each step writes whole values to disk (on a GPU, to pinned "
     "memory), which is slow and may be far more than what is missing. The line names the "
     "plan's predicted peak, and what is needed beside it: small blocks and a reserve",
     "raise the budget to the figure it names"},
    {"EB11", "the budget of … is too small for this program, which needs …",
     "`EBBTIDE_ON_INFEASIBLE=best-effort`: the run stays over its budget",
     "the budget that it names"},
    {"EB12", "no plan could be made",
     "the reason; what does not fit is spilled, which is slower, or computed again where the spill "
     "disk has failed",
     "please report it"},
    {"EB85", "no better plan could be made",
     "the reason. The plan before is followed; steps may be slower than they need be",
     "please report it"},
    {"EB13", "the results of … are kept, not computed again",
     "a replay differed from the original in the verification step, or failed. The line says "
     "what is known of the reason; each op is named once",
     "nothing: the op is left alone"},
    {"EB14", "no plan could be verified",
     "memory was short in each verification step: what does not fit is spilled, or computed again "
     "where the spill disk has failed",
     "raise the budget"},
    {"EB15", "the replay of … failed, though the operation itself did not",
     "an error: what Ebbtide ran again raised, and what it should give is gone: no "
     "fault of the script",
     "please report it; `EBBTIDE=1` trains without dropping"},
    {"EB16", "… gave other results when it was run again",
     "an error: what the op gave first is gone, and now it gave something else. The message says "
     "whether an earlier step had compared it",
     "find what changed between forward and backward; `EBBTIDE=1` trains without "
     "dropping"},
    {"EB17", "the budget of … is more than the control group",
     "a container or a job has a lower limit: the kernel ends a process that goes over it, or "
     "throttles it to a crawl (`memory.high`)",
     "a lower budget, or [`auto`](#forms-of-a-budget)"},
    {"EB18", "the budget of … was exceeded, … at most, and no training step was seen",
     "the process went over it, but Ebbtide sees no backward pass there, so it can drop nothing "
     "([limits](limits.md))",
     "raise the budget, or turn Ebbtide off"},
    {"EB19", "cannot write to the spill file in …",
     "the disk is full, or the folder gone. Values are computed again from then on, "
     "and steps may go over the budget until a plan of replays alone has held it",
     "make room there, or `EBBTIDE_SPILL_DIR`"},
    {"EB20", "steps leave spilled values behind that nothing reads",
     "eight steps, in a row or not, left a graph that was never run backward and is still kept. "
     "Its values fill the disk: `total += loss` does that",
     "`total += loss.item()`, or `loss.detach()`"},
    {"EB23", "out of memory. … asked for",
     "an error: a later step needs more than the first ones did, or something else "
     "takes memory",
     "[read it](#when-memory-is-out)"},
    {"EB24", "no plan for the whole job: … did not report within …",
     "these ranks of the pipeline run without Ebbtide, or stand still",
     "each rank has a plan of its own; a rank that comes later is planned with"},
    {"EB25", "no plan for the whole job: the versions differ",
     "ranks and their versions of Ebbtide and PyTorch are named", "install the same ones on all"},
    {"EB26", "no plan for the whole job: …", "the reason, and the rank that it comes from",
     "each rank has a plan of its own"},
    {"EB27", "to run its part of the pipeline without spilling this rank needs …",
     "whatever is computed again, the budget is too small for its stages",
     "the budget that it names, or give a layer to the neighbour that it names"},
    {"EB28", "this rank runs stage …: its budget is …",
     "[the stage is known](#budgets-by-rank-and-stage), and its budget in force", "nothing"},
    {"EB29", "this rank runs …, for which EBBTIDE_BUDGET has no entry", "it is measured only",
     "an entry for that stage, or `default`"},
    {"EB30", "EBBTIDE_BUDGET: … for nothing that is there",
     "the job has other ranks, or its pipeline other stages; rank 0 says it once",
     "correct the entry"},
    {"EB31", "the stage of this rank is not known",
     "the reason; the budget for its stage is not used",
     "name the rank, or call [`ebbtide.stage()`](#which-microbatch-runs)"},
    {"EB32", "the job's store cannot be used any more",
     "the rank that serves it has ended, or the network broke", "each rank has a plan of its own"},
    {"EB33", "how many ranks share this machine is not known",
     "the reason; [nobody has told](launchers.md#the-process-group-tells)",
     "a budget in bytes, or `LOCAL_WORLD_SIZE`"},
    {"EB34", "this process was forked after its parent had begun to train",
     "it is [not managed](launchers.md#forked-processes)",
     "fork before the first step, or start it by spawn"},
    {"EB35", "this is rank … of …",
     "it was taken to be another rank, or alone, until its process group was there", "nothing"},
    {"EB36", "no web page and no /metrics for this job",
     "other programs use the ports, or sockets are not allowed (seccomp)", "`EBBTIDE_PORT`"},
    {"EB37", "ebbtide status and top do not find this run", "the socket's folder cannot be used",
     "`EBBTIDE_SOCKET_DIR`, or the `--endpoint` that it names"},
    {"EB38", "no web page, no /metrics, and ebbtide status does not find this run",
     "neither the port nor the socket could be used", "`EBBTIDE_PORT` and `EBBTIDE_SOCKET_DIR`"},
    {"EB39", "this run is not shown everywhere", "the reason", "please report it"},
    {"EB40", "EBBTIDE_TOKEN_FILE is not used",
     "the file cannot be read, or others may read it: nothing can be changed "
     "through the port",
     "make it a file of yours alone (`chmod 600`)"},
    {"EB41", "the budget is … from step … on", "somebody [asked for it](control.md)", "nothing"},
    {"EB42", "the budget of … that was asked for is too small after all",
     "the program needs more by now; the one before it holds again", "ask for more"},
    {"EB43", "paused: as PyTorch alone", "somebody asked for it", "[let it go on](control.md)"},
    {"EB44", "after the pause the program needs more than …",
     "the budget that came back is too small; the run is paused again",
     "set a larger budget, [then resume](control.md), or lift the budget"},
    {"EB45", "it goes on with step …", "the pause is over, and the budget in force again",
     "nothing"},
    {"EB46", "what was asked of this rank failed", "the reason; the run goes on as before",
     "ask again; please report it"},
    {"EB47", "the series are not written to the file of EBBTIDE_TEXTFILE",
     "the reason; training goes on, and what was there stays. Said once until it "
     "works again",
     "make room, or make the folder again"},
    {"EB48", "nothing is dropped or spilled from now on",
     "a step uses two streams of a GPU, or two GPUs ([why](gpu.md#dropping-there))",
     "one stream and one GPU a process; else the budget has to hold all of it"},
    {"EB49", "the trace could not be written",
     "the disk is full, or the folder gone; no part of a file is left, and a file "
     "that had the name stays. Of the steps for `EBBTIDE_TRACE_DIR` said once until "
     "one can be written again",
     "make room, or another path"},
    {"EB50", "the report could not be written to …",
     "the disk is full, or the folder gone; no part of a file is left, and a file "
     "that had the name stays",
     "make room, or another path"},
    {"EB51", "the snapshot could not be written to …",
     "the disk is full, or the folder gone; no part of a file is left, and a file "
     "that had the name stays",
     "make room, or another path"},
    {"EB52", "a step could not be analysed", "the reason; the step is not planned with",
     "please report it"},
    {"EB53", "what lives longer than a step could not be told",
     "the reason; nothing else depends on it", "please report it"},
    {"EB54", "this torch has another standard allocator than is known here",
     "what `torch.UntypedStorage` and `copy.deepcopy` allocate is not in the budget",
     "a supported torch (2.11 to 2.15)"},
    {"EB55", "switched to pass-through",
     "something of ours failed; training goes on as PyTorch runs it", "please report it"},
    {"EB56", "no trace is recorded for EBBTIDE_PERFETTO", "the reason; training goes on",
     "the folder or the permissions that it names"},
    {"EB57", "cannot make a spill file in …",
     "the folder is missing, full, or not yours. Nothing is spilled: values are computed again, "
     "and "
     "steps may go over the budget",
     "make room there, or `EBBTIDE_SPILL_DIR`"},
    {"EB58", "the spill file could not be read back",
     "an error: the disk failed, or gave other bytes back than were written. What was spilled is "
     "gone",
     "another disk: `EBBTIDE_SPILL_DIR`"},
    {"EB59", "GPU …: the budget was lowered to …",
     "`torch.cuda.set_per_process_memory_fraction` lowered the budget below what is held already",
     "free memory first"},
    {"EB60", "the budget of … is more than the machine's memory",
     "the kernel ends a process when the machine has no more",
     "a lower budget, or [`auto`](#forms-of-a-budget)"},
    {"EB86", "the budget of … is more than this rank can have here now",
     "the program, its libraries and other processes hold the rest of the memory: the kernel may "
     "end the process before it reaches the budget",
     "a lower budget, or [`auto`](#forms-of-a-budget)"},
    {"EB61", "the budget … is … from step … on: plain peak …",
     "[steps have been measured](#forms-of-a-budget), and the budget is in force", "nothing"},
    {"EB62", "the budget is …: measured first",
     "steps [are measured](#forms-of-a-budget) without a budget until what it is of is known",
     "nothing"},
    {"EB63", "the steps could not be measured, so there is no budget",
     "the reason; training goes on without a budget", "a budget in bytes; please report it"},
    {"EB64", "no step was recorded so far, so the bytes of … are not known",
     "this form of a budget needs a measured step. Another thread's steps are recorded "
     "instead, or no step is seen. Until one is measured, the rank has no budget",
     "a budget in bytes"},
    {"EB65", "CUDA out of memory. Tried to allocate …",
     "an error: the GPU's budget, or the GPU, is full", "[read it](#when-memory-is-out)"},
    {"EB66", "unknown variable EBBTIDE…",
     "no variable has that name: the process ends with exit status 2 before its first step",
     "the name that it asks about, or unset the variable"},
    {"EB67", "EBBTIDE…",
     "the value of that variable cannot be used: the process ends with exit status 2 before its "
     "first step",
     "what the line names"},
    {"EB68", "built for torch …, but this process has torch …",
     "Ebbtide is installed for another torch: Python trains on without it, a C++ program ends with "
     "exit status 2",
     "[install it](install.md) for this one, or unset the variables"},
    {"EB69", "EBBTIDE_…would write one file",
     "several ranks ask for a file without `{rank}` in its name. Ranks that a launcher tells their "
     "number end with status 2. Else local rank 0 writes it",
     "put `{rank}` into the name"},
    {"EB70", "not started, training goes on without it: …",
     "there is no budget in this process, for the reason that follows; where another code stands "
     "behind it, that one tells more",
     "[install](install.md) the package again, or unset the variables"},
    {"EB71", "already loaded from …",
     "a second copy of Ebbtide is in the process, and does nothing",
     "uninstall one of the two, or unset `LD_PRELOAD`"},
    {"EB73", "a tensor that is needed to compute a dropped one again was …",
     "an error: something that PyTorch does not see (NumPy, a raw pointer) wrote to it or resized "
     "it since, so that a replay would give other numbers",
     "find what writes between forward and backward; `EBBTIDE=1` trains without dropping"},
    {"EB74", "a forked child cannot run a graph backward",
     "an error: its parent has spilled values of that graph, and the file is the parent's",
     "fork before the forward pass"},
    {"EB75", "a graph is captured of a backward pass whose forward pass was not",
     "an error: what that forward pass saved has been dropped, and nothing can be computed again "
     "during a capture",
     "capture both, or train without a budget"},
    {"EB76", "what was dropped cannot be had again: …",
     "an error: the reason; no fault of the script", "please report it"},
    {"EB77", "the storage of a tensor that is still needed was resized",
     "an error: the program made it smaller before the backward pass that reads it",
     "resize it after that"},
    {"EB79", "the GPU could not be made to wait for another stream",
     "an error: CUDA refused an event, or one of the two streams is being captured",
     "look for an earlier error of CUDA"},
    {"EB80", "a memory pool that serves others when memory is out is not supported",
     "an error: a `torch.cuda.MemPool` with `use_on_oom=True`",
     "`use_on_oom=False`, or train without Ebbtide"},
    {"EB81", "the state of a memory pool cannot be …",
     "an error: CUDA graph trees (`torch.compile` with `mode=\"reduce-overhead\"`) [need "
     "it](gpu.md#how)",
     "a mode without CUDA graphs, or `torch.cuda.graph`"},
    {"EB82", "…, so no budget can be kept on it", "an error: the GPU's driver lacks what it names",
     "`EBBTIDE_ALLOCATOR=torch`"},
    {"EB83", "a memory pool's allocator: …",
     "the reason why the allocator that a `torch.cuda.MemPool` was made with did not free a block; "
     "training goes on",
     "look into that allocator"},
    {"EB84", "EBBTIDE_AUDIT_CACHE has no effect any more",
     "what one process compared is not kept for the next one: each compares its replays itself; "
     "rank 0 says it once",
     "nothing; the variable and its folder can go"},
});

// Letters of the pattern that the text has, in their order and with anything at each gap; 0: it is
// another message. What follows the pattern is not looked at.
std::size_t lettersIn(std::string_view text, std::string_view pattern) noexcept {
  std::size_t letters = 0, at = 0;
  bool anywhere = false;
  for (;;) {
    const std::size_t gap = pattern.find(kGap);
    const std::string_view piece = pattern.substr(0, gap);
    const std::size_t found = text.find(piece, at);
    if (found == std::string_view::npos || (!anywhere && found != at)) return 0;
    letters += piece.size();
    at = found + piece.size();
    if (gap == std::string_view::npos) return letters;
    pattern.remove_prefix(gap + kGap.size());
    anywhere = true;
  }
}

// Where a line's code stands: at its end, or at that of the sentence before what is to be typed.
std::size_t codeAt(std::string_view text) noexcept {
  const std::size_t sentence = text.rfind(". ");
  if (sentence == std::string_view::npos || text.ends_with('.')) return text.size();
  const std::size_t last = text.rfind(' ');
  const std::string_view word = text.substr(last + 1);
  const std::size_t before = text.rfind(' ', last - 1);
  const bool is_setting = word.starts_with("EBBTIDE_") && word.find('=') != std::string_view::npos;
  const bool is_value = text.substr(before + 1, last - before).starts_with("--");  // of an option
  return is_setting || is_value ? sentence : text.size();
}

}  // namespace

std::span<const Message> messageTable() {
  return kMessages;
}

const Message* knownMessage(std::string_view text) noexcept {
  constexpr std::string_view kOfErrors = "ebbtide: ";
  if (text.starts_with(kOfErrors)) text.remove_prefix(kOfErrors.size());
  const Message* best = nullptr;
  std::size_t most = 0;
  for (const Message& message : kMessages) {
    const std::size_t letters = lettersIn(text, message.text);
    if (letters > most) {
      most = letters;
      best = &message;
    }
  }
  return best;
}

std::string withCode(const std::string& text) {
  const Message* const message = knownMessage(text);
  if (message == nullptr) return text;
  const std::size_t at = codeAt(text);
  return fmt::format("{} [{}]{}", text.substr(0, at), message->code, text.substr(at));
}

std::string withoutCode(std::string line) {
  const std::size_t begin = line.rfind(" [");
  if (begin == std::string::npos || !line.ends_with(']')) return line;
  const std::string_view code(line.data() + begin + 2, line.size() - begin - 3);
  const auto is_it = [code](const Message& message) { return code == message.code; };
  if (std::any_of(kMessages.begin(), kMessages.end(), is_it)) line.resize(begin);
  return line;
}

std::string markdownTable() {
  std::string text = "| code | message | meaning | what to do |\n|---|---|---|---|\n";
  for (const Message& row : kMessages) {
    text +=
        fmt::format("| {} | `{}` | {} | {} |\n", row.code, row.text, row.meaning, row.what_to_do);
  }
  return text;
}

}  // namespace ebbtide::plugin
