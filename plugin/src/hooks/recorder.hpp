// Recorder: what torch calls: the RecordFunction callback for every op, the engine's default
// saved-tensor hooks. Includes torch.
//
//   forward op ──► callback start ──► StepRun::beginOp … endOp
//   SavedVariable ──► DelegatingEngine::get_default_saved_variable_hooks ──► SavedTensor
//                 ──► StepRun::addUse
//   backward ──► SavedTensor::call_unpack_hook ──► StepRun::restore
//
// Nothing here throws into torch's callbacks: a failure of ours switches to pass-through and says
// so once.
#pragma once

#include <string>

#include "observe/memory_history.hpp"
#include "out_of_memory/live_shares.hpp"

namespace ebbtide::plugin {

// Once a process, after torch is loaded (in Python after `import torch` set its own engine).
void installRecorder();

// The calling thread's last step is over: nothing of its program is left to come.
void endThreadStep();

// The calling thread's op was refused its memory, for good: its next op begins another step.
void refuseThreadStep() noexcept;

// The program says that the calling thread's step ends here (ebbtide/step.h). Any process, thread
// and moment: where there is nothing to end it does nothing.
void hintThreadStep();

// The program says which microbatch of which pipeline stage the calling thread turns to. As above.
void hintThreadStage(int stage, int microbatch);

// For the error of an allocation that failed on this thread: what runs here (empty: nothing that is
// known), and whose the live blocks are.
std::string runningOp();
WorkInHand workInHand();  // the same, and ours too
void nameLiveBlocks(LiveShares& live);

}  // namespace ebbtide::plugin
