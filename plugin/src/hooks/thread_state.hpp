// ThreadState: what the recorder knows of one thread: the op that runs, its steps. Includes torch.
//
// Thread rule: each thread has its own, and nobody looks at another one's.
#pragma once

#include <vector>

#include "hooks/op_calls.hpp"
#include "hooks/thread_steps.hpp"
#include "observe/message_wait.hpp"
#include "plan/plan.hpp"

namespace ebbtide::plugin {

class SavedTensor;

struct ThreadState {
  OpCalls::Thread computes;
  OpId active = scheduler::kNone;     // op between its start and its end
  std::vector<SavedTensor*> unbound;  // saved while the active op runs: values known when it ends
  MessageWait wait;
  bool updates = false;  // inside of Optimizer.step
  // The last backward pass seen to create a graph: its engine has gradients on where a node begins.
  int graph_creator = scheduler::kNone;
  std::vector<at::Tensor> read_stand_ins;  // of the node that runs (HookedTensor)
  ThreadSteps steps;                       // last, and so the first to end
};

ThreadState& threadState();  // the calling thread's

bool inBackward();   // the calling thread runs a node
bool passThrough();  // nothing is done now, as without the plugin
bool captures();     // nor here: what is asked for is not done now, and PyTorch keeps what it saves

bool underTransform();  // a dispatch mode, or one of torch.func's, sees what the thread asks for

}  // namespace ebbtide::plugin
