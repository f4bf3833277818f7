#include "launch/interrupts.hpp"

namespace ebbtide::cli {
namespace {

volatile sig_atomic_t noted_signal = 0, noted_count = 0;

void note(int signal) {
  noted_signal = signal;
  noted_count = noted_count + 1;
}

}  // namespace

Interrupts::Interrupts() {
  noted_signal = 0;
  noted_count = 0;
  struct sigaction action {};
  action.sa_handler = note;  // without SA_RESTART: waiting ends
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);  // nohup
  }
}

Interrupts::~Interrupts() {
  restore();
}

int Interrupts::signal() const {
  return noted_signal;
}

int Interrupts::count() const {
  return noted_count;
}

void Interrupts::raiseNoted() {
  restore();
  if (noted_signal != 0) ::raise(noted_signal);
}

void Interrupts::restore() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

}  // namespace ebbtide::cli
