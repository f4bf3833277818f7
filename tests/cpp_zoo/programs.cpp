#include "programs.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <random>
#include <semaphore>
#include <thread>
#include <utility>

#include "ebbtide/step.h"

namespace ebbtide::cpp_zoo {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr int kRows = 1024;
constexpr int kWidth = 256;  // a value of kRows has 1 MiB
constexpr int kDepth = 6;
constexpr int kReplicas = 3;

struct Layer {
  Tensor weight;
  Tensor bias;
  Tensor scale;
};
using Network = std::vector<Layer>;

Network makeNetwork() {
  Network network;
  for (int i = 0; i < kDepth; ++i) {
    network.push_back({(torch::randn({kWidth, kWidth}) / std::sqrt(kWidth)).requires_grad_(),
                       torch::zeros({kWidth}, torch::requires_grad()),
                       torch::ones({kWidth}, torch::requires_grad())});
  }
  return network;
}

std::vector<Tensor> parametersOf(const Network& network) {
  std::vector<Tensor> parameters;
  for (const Layer& layer : network)
    parameters.insert(parameters.end(), {layer.weight, layer.bias, layer.scale});
  return parameters;
}

// x + activate(norm(x) W + b), layer by layer.
Tensor run(const Network& network, Tensor x, const std::function<Tensor(Tensor)>& activate) {
  for (const Layer& layer : network) {
    const Tensor normed = torch::layer_norm(x, {kWidth}, layer.scale);
    x = x + activate(torch::linear(normed, layer.weight, layer.bias));
  }
  return x;
}

Training residual(std::function<Tensor(Tensor)> activate) {
  auto network = std::make_shared<Network>(makeNetwork());
  return {
      parametersOf(*network), [network, activate = std::move(activate)] {
        const Tensor loss = run(*network, torch::randn({kRows, kWidth}), activate).pow(2).mean();
        loss.backward();
        return std::vector<Tensor>{loss};
      }};
}

// x * sigmoid(factor x). Saves a tensor and a number, and hands out a mask without gradient.
struct Swish : torch::autograd::Function<Swish> {
  static tensor_list forward(AutogradContext* context, const Tensor& x, double factor) {
    context->save_for_backward({x});
    context->saved_data["factor"] = factor;
    const Tensor positive = x > 0;
    context->mark_non_differentiable({positive});
    return {x * torch::sigmoid(x * factor), positive};
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& gradients) {
    const Tensor x = context->get_saved_variables()[0];
    const double factor = context->saved_data["factor"].toDouble();
    const Tensor gate = torch::sigmoid(x * factor);
    return {gradients[0] * (gate + factor * x * gate * (1 - gate)), Tensor()};
  }
};

// Halves its input in place, says so, and saves what it wrote.
struct HalveInPlace : torch::autograd::Function<HalveInPlace> {
  static Tensor forward(AutogradContext* context, Tensor x) {
    x.mul_(0.5);
    context->mark_dirty({x});
    context->save_for_backward({x});
    return x;
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& gradients) {
    const Tensor y = context->get_saved_variables()[0];
    return {gradients[0] * 0.5 + 0.0 * y};
  }
};

Training customFunctions() {
  return residual([](const Tensor& x) {
    const tensor_list results = Swish::apply(x, 1.5);
    return results[0].masked_fill(results[1].logical_not(), -0.1).tanh();
  });
}

Training customInPlace() {
  return residual([](const Tensor& x) { return HalveInPlace::apply(torch::sin(x)).exp(); });
}

// Chains of writes, also through views, before and after something is saved of the storage.
Training inPlace() {
  return residual([](const Tensor& x) {
    Tensor y = torch::sin(x).mul_(2);
    y.slice(0, 0, kRows / 2).sub_(1);
    y.t().add_(0.1).mul_(0.9);
    y.select(1, 0).zero_();
    Tensor z = y + x;
    torch::relu_(z);
    return z.clone().add_(y).tanh_();
  });
}

// Masks of the default generator, one of an explicit one, and one that is drawn by hand.
Training dropout() {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  return residual([generator](const Tensor& x) {
    Tensor y = torch::dropout(torch::gelu(x), 0.1, true);
    y = torch::feature_dropout(torch::alpha_dropout(y, 0.1, true), 0.1, true);
    const Tensor kept = torch::bernoulli(torch::full_like(y.detach(), 0.9), generator);
    return torch::rrelu(y * kept, 0.1, 0.3, true);
  });
}

Network replica(const Network& network) {
  Network copy;
  for (const Layer& layer : network) {
    copy.push_back({layer.weight.detach().clone().requires_grad_(),
                    layer.bias.detach().clone().requires_grad_(),
                    layer.scale.detach().clone().requires_grad_()});
  }
  return copy;
}

// A thread that lives as long as the training and runs one task after the other.
class Worker {
 public:
  Worker() : thread_([this] { loop(); }) {}
  ~Worker() {
    done_ = true;
    ready_.release();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::future<Tensor> run(std::function<Tensor()> task) {
    task_ = std::packaged_task<Tensor()>(std::move(task));
    std::future<Tensor> result = task_.get_future();
    ready_.release();
    return result;
  }

 private:
  void loop() {
    for (;;) {
      ready_.acquire();
      if (done_) return;
      std::exchange(task_, {})();
    }
  }

  std::packaged_task<Tensor()> task_;
  std::binary_semaphore ready_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// Each thread runs its part of the batch through a replica with a generator of its own; the
// gradients are added in the order of the replicas.
Training dataParallelThreads() {
  auto network = std::make_shared<Network>(makeNetwork());
  auto generators = std::make_shared<std::vector<torch::Generator>>();
  for (std::uint64_t i = 0; i < kReplicas; ++i)
    generators->push_back(at::make_generator<at::CPUGeneratorImpl>(i));
  auto workers = std::make_shared<std::array<Worker, kReplicas>>();
  return {parametersOf(*network), [network, generators, workers] {
            std::vector<Network> replicas;
            std::vector<std::future<Tensor>> tasks;
            for (int i = 0; i < kReplicas; ++i) replicas.push_back(replica(*network));
            for (int i = 0; i < kReplicas; ++i) {
              const Tensor x = torch::randn({kRows / 2, kWidth});
              tasks.push_back((*workers)[i].run([&, i, x] {
                const Tensor y = run(replicas[i], x, [&, i](const Tensor& z) {
                  const Tensor chance = torch::full_like(z.detach(), 0.9);
                  return torch::gelu(z) * torch::bernoulli(chance, (*generators)[i]);
                });
                const Tensor loss = y.pow(2).mean();
                loss.backward();
                return loss.detach();
              }));
            }
            std::vector<Tensor> losses;
            for (auto& task : tasks) losses.push_back(task.get());
            for (const Network& one : replicas) {
              const auto own = parametersOf(*network);
              const auto theirs = parametersOf(one);
              for (std::size_t i = 0; i < own.size(); ++i) {
                if (!own[i].grad().defined()) own[i].mutable_grad() = torch::zeros_like(own[i]);
                own[i].mutable_grad().add_(theirs[i].grad(), 1.0 / kReplicas);
              }
            }
            return losses;
          }};
}

Tensor activated(const Tensor& x) {
  return torch::gelu(x);
}

// The parameters are written where nobody is told, and no optimizer knows them.
Training hintedWrites() {
  auto network = std::make_shared<Network>(makeNetwork());
  return {
      {}, [network] {
        const Tensor loss = run(*network, torch::randn({kRows, kWidth}), activated).pow(2).mean();
        loss.backward();
        for (Tensor& parameter : parametersOf(*network)) {
          auto* values = static_cast<float*>(parameter.data_ptr());
          const Tensor gradient = parameter.grad().contiguous();
          const float* slopes = gradient.const_data_ptr<float>();
          for (std::int64_t i = 0; i < parameter.numel(); ++i) values[i] -= 0.01F * slopes[i];
          parameter.mutable_grad().reset();
        }
        ebbtide_step();
        return std::vector<Tensor>{loss, network->back().weight.detach().sum()};
      }};
}

// Nothing is trained.
Training hintedSaliency() {
  auto network = std::make_shared<Network>(makeNetwork());
  for (Tensor& parameter : parametersOf(*network)) parameter.requires_grad_(false);
  return {{}, [network] {
            const Tensor x = torch::randn({kRows, kWidth}, torch::requires_grad());
            ebbtide_stage(0, 0);
            const Tensor loss = run(*network, x, activated).pow(2).mean();
            loss.backward();
            ebbtide_step();
            return std::vector<Tensor>{loss, x.grad().abs().sum()};
          }};
}

float fraction(std::mt19937& numbers) {
  return static_cast<float>(numbers() >> 8) * 0x1p-24F;
}

void writeRaw(const Tensor& rows, std::mt19937& numbers) {
  std::generate_n(rows.data_ptr<float>(), rows.numel(), [&] { return fraction(numbers); });
}

Tensor writtenRaw(std::mt19937& numbers) {
  const Tensor values = torch::empty({kRows, kWidth});
  writeRaw(values, numbers);
  return values;
}

Tensor halfWrittenRaw(std::mt19937& numbers) {
  const Tensor values = torch::empty({kRows, kWidth});
  values.slice(0, 0, kRows / 2).fill_(0.5);
  writeRaw(values.slice(0, kRows / 2), numbers);
  return values;
}

Tensor listOfNumbers(std::mt19937& numbers) {
  std::vector<float> list(kWidth);
  std::generate(list.begin(), list.end(), [&] { return fraction(numbers); });
  return torch::tensor(list);
}

Tensor orderOfRows(std::mt19937& numbers) {
  const Tensor order = torch::empty({kRows}, torch::kLong);
  auto* rows = order.data_ptr<std::int64_t>();
  std::iota(rows, rows + kRows, 0);
  std::shuffle(rows, rows + kRows, numbers);
  return order;
}

// The program itself writes what ops take as an index, save, read without saving it, and write in
// place. Poison is on: PyTorch fills new memory with NaN, or 2^63 - 1, so that no block is right by
// chance.
Training rawWrites() {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  return residual([numbers = std::make_shared<std::mt19937>(1)](const Tensor& x) {
    const Tensor order = orderOfRows(*numbers);
    Tensor y = torch::gelu(x).index_select(0, order) * writtenRaw(*numbers);
    y = (y + halfWrittenRaw(*numbers)).sin() * listOfNumbers(*numbers);
    return y * writtenRaw(*numbers).add_(1);
  });
}

}  // namespace

const std::map<std::string, std::function<Training()>>& programs() {
  static const std::map<std::string, std::function<Training()>> all = {
      {"custom_functions", customFunctions},
      {"custom_in_place", customInPlace},
      {"in_place", inPlace},
      {"dropout", dropout},
      {"data_parallel_threads", dataParallelThreads},
      {"hinted_writes", hintedWrites},
      {"hinted_saliency", hintedSaliency},
      {"raw_writes", rawWrites},
  };
  return all;
}

}  // namespace ebbtide::cpp_zoo
