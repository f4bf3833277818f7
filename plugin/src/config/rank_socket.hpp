// RankSocket: where the clients of a rank find it on this machine. Torch-free.
//
// Who makes the socket makes the folders too, and refuses those of others.
#pragma once

#include <string>

namespace ebbtide::plugin {

class RankSocket {
 public:
  static constexpr std::size_t kMostJobIdBytes = 64;

  // `given_folder`: EBBTIDE_SOCKET_DIR, as metrics::socketFolder() takes it.
  RankSocket(const std::string& given_folder, std::string job_id, int rank);

  // EBBTIDE_JOB_ID, else the launcher's name for the job, else port-<MASTER_PORT>, else pid-<pid>.
  static std::string jobIdFromEnvironment();
  // Characters outside of [A-Za-z0-9._-] become '_'; "." and ".." too. At most 64 are left.
  static std::string jobIdOf(const std::string& text);

  const std::string& jobId() const { return job_id_; }
  const std::string& folder() const { return folder_; }         // of all jobs
  const std::string& jobFolder() const { return job_folder_; }  // of this one
  const std::string& path() const { return path_; }

 private:
  std::string job_id_, folder_, job_folder_, path_;
};

}  // namespace ebbtide::plugin
