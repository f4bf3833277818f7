// What a session says of a variable that is none any more.
#include "controlled_session.hpp"

namespace ebbtide::plugin {
namespace {

class SessionVariablesTest : public test::ControlledSession {
 protected:
  // Of a run with two steps.
  std::string saidBy(int rank) {
    config_.log_level = "warning";
    config_.asks_for_audit_cache = true;
    config_.rank = rank;
    config_.world_size = 2;
    testing::internal::CaptureStderr();
    begin();
    step();
    step();
    session_->shutdown();
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(SessionVariablesTest, OneThatIsGoneIsOneLine) {
  const std::string text = saidBy(0);
  EXPECT_EQ(text,
            "[ebbtide rank 0] warning: EBBTIDE_AUDIT_CACHE has no effect any more (each process "
            "compares its replays itself); it can be unset [EB84]\n");
}

TEST_F(SessionVariablesTest, OtherRanksAreSilentOfIt) {
  EXPECT_EQ(saidBy(1), "");
}

}  // namespace
}  // namespace ebbtide::plugin
