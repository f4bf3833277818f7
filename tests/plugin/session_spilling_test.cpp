// What a session says of a disk that takes nothing.
#include "controlled_session.hpp"

namespace ebbtide::plugin {
namespace {

using test::kMib;

class SessionSpillingTest : public test::ControlledSession {
 protected:
  // As the executor does where memory is short.
  void failToSpill() {
    const std::string value(SpillTarget::kLeastBytes, 'x');
    const auto slot = session_->spills().write(value.data(), SpillTarget::kLeastBytes,
                                               SpillTarget::Afterwards::kFreed);
    EXPECT_FALSE(slot.has_value());
    session_->noteSpillFailed();
  }
};

// ENOENT is 2. Said once, however often it fails; each error has it.
TEST_F(SessionSpillingTest, ErrorsNameTheDiskThatTookNothing) {
  const std::string why =
      "cannot make a spill file in /no/such/folder: No such file or directory (errno 2)";
  config_.spill_dir = "/no/such/folder";
  config_.log_level = "info";
  testing::internal::CaptureStderr();
  begin(plain_bytes_);
  failToSpill();
  failToSpill();
  const std::string said = testing::internal::GetCapturedStderr();
  const std::size_t at = said.find(why);
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find(why, at + 1), std::string::npos) << said;
  const LiveShares live(session_->memory());
  const std::string error = session_->outOfMemoryMessage(kMib, "aten::mm", live);
  EXPECT_NE(error.find("\nNothing can be spilled: " + why + ". Make room there"), std::string::npos)
      << error;
}

}  // namespace
}  // namespace ebbtide::plugin
