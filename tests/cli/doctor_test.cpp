#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "doctor/child_output.hpp"
#include "doctor/machine_findings.hpp"
#include "doctor/python_findings.hpp"
#include "wrong_server.hpp"

namespace ebbtide::cli {
namespace {

using test::Folder;
using Verdict = Finding::Verdict;

TEST(ChildOutput, IsWhatAProgramPrints) {
  EXPECT_EQ(outputOf({"sh", "-c", "echo out; echo err >&2"}, std::chrono::seconds(60)).text,
            "out\n");
  EXPECT_EQ(outputOf({"sh", "-c", "exit 3"}, std::chrono::seconds(60)).problem,
            "ended with status 3");
  EXPECT_EQ(outputOf({"sh", "-c", "kill -9 $$"}, std::chrono::seconds(60)).problem,
            "was killed: Killed");
  EXPECT_NE(
      outputOf({"/no/such/program"}, std::chrono::seconds(60)).problem.find("cannot be started"),
      std::string::npos);
  // What it started holds the pipe open: it is killed with it.
  EXPECT_EQ(outputOf({"sh", "-c", "sleep 1000 & sleep 1000"}, std::chrono::seconds(1)).problem,
            "did not end within 1 s");
}

TEST(ChildOutput, HasNoneOfOurVariables) {
  ::setenv("EBBTIDE_BUDGET", "1GiB", 1);
  EXPECT_EQ(outputOf({"sh", "-c", "echo ${EBBTIDE_BUDGET:-none}"}, std::chrono::seconds(60)).text,
            "none\n");
  ::unsetenv("EBBTIDE_BUDGET");
}

TEST(PythonFindings, ReadsWhatTheProbeSays) {
  const auto [findings, site_packages] = factsFromProbe(
      {"python3", "the first in PATH"},
      "hello from sitecustomize\n\n{\"python\":\"3.11.2\",\"executable\":\"/v/bin/python\","
      "\"torch\":{\"version\":\"2.11.0+cpu\",\"cuda\":null},\"plugin\":{\"built_for\":\"2.11\","
      "\"version\":\"0.1.0\",\"folder\":\"/v/ebbtide\",\"registered\":true},\"gpus\":[],"
      "\"site_packages\":\"/v/packages\",\"driver_error\":\"OSError: libcuda.so.1\"}\n");
  ASSERT_EQ(findings.size(), 4U);
  EXPECT_EQ(findings[0].what, "3.11.2 in /v/bin/python, the first in PATH");
  EXPECT_EQ(findings[1].what, "2.11.0+cpu, for CPUs");
  EXPECT_EQ(findings[2].verdict, Verdict::kOk);
  EXPECT_EQ(findings[3].verdict, Verdict::kAbsent);
  EXPECT_EQ(site_packages, "/v/packages");
}

TEST(PythonFindings, NamesAPluginOfAnotherTorchAndGpusThatTorchCannotUse) {
  const auto [findings, site_packages] = factsFromProbe(
      {"python3", "the first in PATH"},
      "{\"torch\":{\"version\":\"2.12.1\",\"cuda\":null},\"plugin\":{\"built_for\":\"2.11\","
      "\"registered\":true},\"driver\":{\"code\":0,\"version\":12040,\"gpus\":2}}");
  EXPECT_EQ(site_packages, "");
  EXPECT_EQ(findings[2].what, "built for torch 2.11, but torch 2.12.1 is installed");
  EXPECT_EQ(findings[2].fix.substr(0, 20), "EBBTIDE_TORCH=2.12.0");
  EXPECT_EQ(findings[3].verdict, Verdict::kProblem);
  EXPECT_EQ(findings[3].what, "2 GPU(s), but this torch is built for CPUs alone");
}

TEST(PythonFindings, AProbeThatSaysNothingIsAProblem) {
  const ChosenPython python{"python3", "the first in PATH"};
  for (const char* text : {"", "no", "[]", "{\"torch\":{\"version\":"}) {
    const Findings findings = factsFromProbe(python, text).findings;
    ASSERT_EQ(findings.size(), 1U) << text;
    EXPECT_EQ(findings[0].verdict, Verdict::kProblem) << text;
    EXPECT_EQ(findings[0].what, "python3, the first in PATH, does not say what it has");
  }
  EXPECT_EQ(factsFromProbe(python, "{}").findings.at(1).verdict, Verdict::kProblem);  // no torch
}

TEST(PythonFindings, LooksAtTheEnvironmentInUseThenAtTheOneHere) {
  const char* before = std::getenv("VIRTUAL_ENV");
  const std::string kept = before == nullptr ? "" : before;
  ::unsetenv("VIRTUAL_ENV");
  const Folder here, other;
  EXPECT_EQ(choosePython("", here.path()).program, "");
  for (const std::string& environment : {here.path() + "/.venv", other.path()}) {
    std::filesystem::create_directories(environment + "/bin");
    std::ofstream(environment + "/bin/python") << "";
    ::chmod((environment + "/bin/python").c_str(), 0700);
  }
  EXPECT_EQ(choosePython("", here.path()).program, here.path() + "/.venv/bin/python");
  EXPECT_EQ(choosePython("", here.path()).why, "of .venv here");
  ::setenv("VIRTUAL_ENV", other.path().c_str(), 1);
  EXPECT_EQ(choosePython("", here.path()).program, other.path() + "/bin/python");
  EXPECT_EQ(choosePython("/p", here.path()).program, "/p");
  ::unsetenv("VIRTUAL_ENV");
  if (before != nullptr) ::setenv("VIRTUAL_ENV", kept.c_str(), 1);
}

TEST(PythonFindings, AProgramOfAWheelBelongsToThePythonOfItsEnvironment) {
  const Folder environment;
  std::filesystem::create_directories(environment.path() + "/bin");
  const std::string python = environment.path() + "/bin/python";
  std::ofstream(python) << "";
  ::chmod(python.c_str(), 0700);
  const std::string packages = environment.path() + "/lib/python3.11/site-packages";
  EXPECT_EQ(pythonAround(packages + "/ebbtide/ebbtide"), python);
  EXPECT_EQ(pythonAround(environment.path() + "/lib/python3.11/elsewhere/ebbtide/ebbtide"), "");
  std::filesystem::remove(python);
  EXPECT_EQ(pythonAround(packages + "/ebbtide/ebbtide"), "");
}

TEST(MachineFindings, ATakenPortIsAProblemWhereItIsGiven) {
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(taken, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(taken, 1), 0);
  socklen_t length = sizeof address;
  ::getsockname(taken, reinterpret_cast<sockaddr*>(&address), &length);
  const Finding finding = portFinding("127.0.0.1", ntohs(address.sin_port), true);
  EXPECT_EQ(finding.verdict, Verdict::kProblem);
  EXPECT_NE(finding.what.find("Address already in use"), std::string::npos);
  const Finding not_given = portFinding("127.0.0.1", ntohs(address.sin_port), false);
  EXPECT_EQ(not_given.verdict, Verdict::kOk);
  EXPECT_NE(not_given.what.find("taken by another program"), std::string::npos);
  ::close(taken);
  EXPECT_EQ(portFinding("127.0.0.1", ntohs(address.sin_port), true).verdict, Verdict::kOk);
  EXPECT_EQ(portFinding("no address", 9464, false).verdict, Verdict::kProblem);
}

TEST(MachineFindings, ASocketFolderHasToBeOursAlone) {
  const Folder folder;
  EXPECT_EQ(socketFolderFinding(folder.path()).verdict, Verdict::kOk);
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(socketFolderFinding(folder.path()).fix, "chmod 700 " + folder.path());
  EXPECT_EQ(socketFolderFinding("/proc/ebbtide").verdict, Verdict::kProblem);
  EXPECT_EQ(socketFolderFinding("/tmp/" + std::string(100, 'x')).verdict, Verdict::kProblem);
  std::ofstream(folder.path() + "/file") << "x";
  EXPECT_EQ(socketFolderFinding(folder.path() + "/file").verdict, Verdict::kProblem);
}

TEST(MachineFindings, ASpillFolderHasToTakeFiles) {
  EXPECT_EQ(spillFolderFinding("/proc").verdict, Verdict::kProblem);
  EXPECT_NE(spillFolderFinding("/no/such/folder").what.find("No such file"), std::string::npos);
}

// What trains all the same is no problem: /tmp is memory on many machines, /dev/shm on all.
TEST(MachineFindings, ASpillFolderInMemoryIsAnAdvice) {
  const Finding finding = spillFolderFinding("/dev/shm");
  EXPECT_EQ(finding.verdict, Verdict::kAdvice);
  EXPECT_NE(finding.what.find("is memory"), std::string::npos);
  EXPECT_NE(finding.fix, "");
}

// Near the tests there is the wheel: it is that of the Python that counts.
TEST(MachineFindings, TheSolverIsThatOfThePython) {
  const Folder folder;
  const Finding finding = solverFinding(folder.path());
  EXPECT_EQ(finding.verdict, Verdict::kAbsent);
  EXPECT_EQ(finding.what.find("ortools=="), 0U) << finding.what;
  EXPECT_NE(finding.what.find(" is not in " + folder.path() + ": "), std::string::npos);
  EXPECT_EQ(finding.fix.find("pip install ortools=="), 0U) << finding.fix;
}

// Version 2: the group above the process's own has the lower limit.
TEST(MachineFindings, FindsTheLowestLimitOfTheGroups) {
  const Folder folder;
  std::filesystem::create_directories(folder.path() + "/a/b");
  std::ofstream(folder.path() + "/a/memory.max") << "1000\n";
  std::ofstream(folder.path() + "/a/b/memory.max") << "max\n";
  EXPECT_EQ(groupLimitBytes("0::/a/b\n", folder.path()), 1000);
  std::ofstream(folder.path() + "/a/b/memory.high") << "800\n";
  EXPECT_EQ(groupLimitBytes("0::/a/b\n", folder.path()), 800);
  EXPECT_EQ(groupLimitBytes("0::/\n", folder.path()), std::nullopt);
  // Version 1, in a container: its own path is not there, the root has the limit.
  std::filesystem::create_directories(folder.path() + "/memory");
  std::ofstream(folder.path() + "/memory/memory.limit_in_bytes") << "2000\n";
  EXPECT_EQ(groupLimitBytes("4:cpu,memory:/docker/x\n", folder.path()), 2000);
  std::ofstream(folder.path() + "/memory/memory.limit_in_bytes") << "9223372036854771712\n";
  EXPECT_EQ(groupLimitBytes("4:memory:/docker/x\n", folder.path()), std::nullopt);
}

TEST(MachineFindings, APercentageIsOfWhatTheGroupMayUse) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  EXPECT_EQ(memoryFinding(64 * kGiB, std::nullopt).verdict, Verdict::kOk);
  const Finding finding = memoryFinding(64 * kGiB, 10 * kGiB);
  EXPECT_EQ(finding.verdict, Verdict::kOk);
  EXPECT_NE(finding.what.find("may use 10.00 GiB"), std::string::npos) << finding.what;
}

}  // namespace
}  // namespace ebbtide::cli
