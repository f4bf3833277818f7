// The wire format of protocol buffers, as far as CP-SAT's messages need it.
// https://protobuf.dev/programming-guides/encoding
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebbtide::scheduler {

// One message; a nested one is written apart and added as bytes. Fields may come in any order.
class ProtobufMessage {
 public:
  ProtobufMessage& integer(int field, std::int64_t value);  // int32, int64, bool, enum
  ProtobufMessage& real(int field, double value);
  ProtobufMessage& bytes(int field, std::string_view value);  // string: must be UTF-8
  ProtobufMessage& message(int field, const ProtobufMessage& value);
  ProtobufMessage& packed(int field, const std::vector<std::int64_t>& values);

  const std::string& wire() const { return wire_; }

 private:
  void varint(std::uint64_t value);
  void tag(int field, int type);

  std::string wire_;
};

struct ProtobufField {
  int number = 0;
  std::uint64_t bits = 0;  // of an integer, or of the double that it is
  std::string_view bytes;  // of a string, message or packed list; lives as long as the input
  bool delimited = false;  // `bytes` counts

  double real() const;
  // A packed list or one integer of a repeated field; nothing where it is malformed.
  std::optional<std::vector<std::int64_t>> integers() const;
};

// Its fields in order; nothing where the bytes are no message.
std::optional<std::vector<ProtobufField>> protobufFields(std::string_view wire);

}  // namespace ebbtide::scheduler
