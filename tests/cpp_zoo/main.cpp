// cpp_zoo_programs NAME FILE: trains one program and writes all that it computed.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "programs.hpp"

namespace {

constexpr int kSteps = 8;

// FNV-1a, 64 bits.
void addTo(std::uint64_t& hash, const torch::Tensor& tensor) {
  const auto contiguous = tensor.detach().contiguous();
  const auto* bytes = static_cast<const unsigned char*>(contiguous.const_data_ptr());
  for (std::size_t i = 0; i < contiguous.nbytes(); ++i) hash = (hash ^ bytes[i]) * 1099511628211ULL;
}

std::string firstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::filesystem::path> threadsNamed(const std::string& name) {
  std::vector<std::filesystem::path> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (firstLine(task.path() / "comm") == name) threads.push_back(task.path());
  }
  return threads;
}

bool sleeps(const std::filesystem::path& thread) {
  const std::string stat = firstLine(thread / "stat");
  const auto name_end = stat.rfind(") ");
  return name_end == std::string::npos || stat.at(name_end + 2) == 'S';  // or has ended
}

void awaitIdle(const std::filesystem::path& thread) {
  for (int idle = 0; idle < 3;) {  // it may sleep for a moment on a lock
    idle = sleeps(thread) ? idle + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// Returns when the planning threads have nothing to do; at once in plain LibTorch. The search for a
// better plan has the lowest priority, and may run little: it is waited for a minute at most. It is
// not waited for where it waits itself, until the process has used more of the processor.
void settle() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kRest = std::chrono::milliseconds(100);
  static Clock::duration patience = std::chrono::minutes(1);
  const auto begin = Clock::now();
  for (auto ran = begin;;) {
    for (const auto& thread : threadsNamed("ebbtide-plan")) awaitIdle(thread);
    const auto polishing = threadsNamed("ebbtide-polish");
    const auto now = Clock::now();
    if (!std::all_of(polishing.begin(), polishing.end(), sleeps)) ran = now;
    if (polishing.empty() || now - ran > kRest || now - begin > patience) {
      patience -= now - begin;
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void train(const std::string& name, const std::string& path) {
  torch::manual_seed(1);
  torch::set_num_threads(1);
  const auto found = ebbtide::cpp_zoo::programs().find(name);
  if (found == ebbtide::cpp_zoo::programs().end())
    throw std::invalid_argument("no program " + name);
  const auto training = found->second();
  torch::optim::SGD optimizer(training.parameters, torch::optim::SGDOptions(0.01).momentum(0.9));
  std::ofstream out(path);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (const auto& loss : training.step()) {
      char text[64];
      std::snprintf(text, sizeof text, "%a", loss.item<double>());
      out << "step " << step << " loss " << text << '\n';
    }
    std::uint64_t hash = 14695981039346656037ULL;
    for (const auto& parameter : training.parameters) addTo(hash, parameter.grad());
    optimizer.step();
    for (const auto& parameter : training.parameters) addTo(hash, parameter);
    out << "step " << step << " state " << std::hex << hash << std::dec << '\n';
    settle();
  }
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::invalid_argument("usage: cpp_zoo_programs NAME FILE");
    train(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "cpp_zoo_programs: " << error.what() << '\n';
    return 1;
  }
}
