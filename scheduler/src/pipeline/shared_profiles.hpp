// Stages that are as good as alike planned once.
#pragma once

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

// Profiles with the same bytes and with times within 5 % of the first one become one, with the
// mean of their times. Profiles stay in the order in which stages first name them.
void shareProfiles(PipelineJob& job);

}  // namespace ebbtide::scheduler
