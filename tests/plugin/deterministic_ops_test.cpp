#include "verify/deterministic_ops.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ebbtide::plugin {
namespace {

TEST(DeterministicOps, SaysWhy) {
  for (const char* op : {"aten::relu", "aten::mm", "aten::bernoulli", "aten::native_layer_norm",
                         "aten::sum", "aten::empty_like", "aten::convolution", "aten::gelu"}) {
    const char* const why = whyDeterministic(op);
    ASSERT_NE(why, nullptr) << op;
    EXPECT_GT(std::string(why).size(), 20u) << op;
  }
  EXPECT_STRNE(whyDeterministic("aten::relu"), whyDeterministic("aten::mm"));
}

TEST(DeterministicOps, InPlaceIsTheSame) {
  EXPECT_EQ(whyDeterministic("aten::relu_"), whyDeterministic("aten::relu"));
  EXPECT_EQ(whyDeterministic("aten::uniform_"), whyDeterministic("aten::uniform"));
}

// Rows that meet in an order of threads' own; other libraries; sizes that depend on contents.
TEST(DeterministicOps, WhatIsLeftOut) {
  for (const char* op :
       {"aten::scatter_add", "aten::scatter_add_", "aten::index_add", "aten::index_put_",
        "aten::scatter", "aten::put_", "aten::nonzero", "aten::_local_scalar_dense",
        "c10d::allreduce_", "mine::relu", "torchvision::nms", "aten::set_", "aten::resize_",
        "aten::mkldnn_rnn_layer", "aten::_batch_norm_with_update"}) {
    EXPECT_EQ(whyDeterministic(op), nullptr) << op;
  }
}

// torch.use_deterministic_algorithms names them; on a CPU cumsum repeats.
TEST(DeterministicOps, WhatMayDifferOnAGpu) {
  for (const char* op : {"aten::scatter_add", "aten::scatter_add_", "aten::index_put_",
                         "aten::_index_put_impl_", "aten::cumsum", "aten::nll_loss2d_forward"}) {
    EXPECT_TRUE(mayDifferOnGpu(op)) << op;
  }
  for (const char* op : {"aten::mm", "aten::native_dropout", "aten::gather", "aten::sum",
                         "aten::scatter_ad", "mine::cumsum", "aten::", "cumsum"}) {
    EXPECT_FALSE(mayDifferOnGpu(op)) << op;
  }
}

// Whose kernels add by atomics, or overwrite, from several threads (cpu/IndexKernel.cpp). Of the
// others each place is one thread's.
TEST(DeterministicOps, WhatMayRaceOnAHost) {
  for (const char* op :
       {"aten::index_put_", "aten::index_put", "aten::_index_put_impl_", "aten::_unsafe_index_put",
        "aten::_unsafe_masked_index_put_accumulate", "aten::put_", "aten::index_copy_"}) {
    EXPECT_TRUE(mayRaceOnHost(op)) << op;
    EXPECT_EQ(whyDeterministic(op), nullptr) << op;
  }
  for (const char* op : {"aten::scatter_add_", "aten::index_add", "aten::scatter_reduce",
                         "aten::index_fill_", "aten::masked_scatter", "mine::put_", "put"}) {
    EXPECT_FALSE(mayRaceOnHost(op)) << op;
  }
}

TEST(DeterministicOps, WhatIsOftenWrittenUnseen) {
  for (const char* op : {"aten::zeros", "aten::ones_like", "aten::new_full", "aten::fill_",
                         "aten::arange", "aten::randn", "aten::clone"}) {
    EXPECT_TRUE(isOftenWrittenUnseen(op)) << op;
    EXPECT_NE(whyDeterministic(op), nullptr) << op;
  }
  for (const char* op :
       {"aten::mul", "aten::empty", "aten::bernoulli_", "aten::_to_copy", "mine::zeros", "zeros"}) {
    EXPECT_FALSE(isOftenWrittenUnseen(op)) << op;
  }
}

// No name is taken for a part of another one, nor two for one.
TEST(DeterministicOps, WholeNamesAlone) {
  for (const char* op : {"aten::", "aten:: ", "aten::rel", "aten::elu_backward", "aten::add mul",
                         "relu", "aten::_", "aten::__and__", ""}) {
    EXPECT_EQ(whyDeterministic(op), nullptr) << op;
  }
}

}  // namespace
}  // namespace ebbtide::plugin
