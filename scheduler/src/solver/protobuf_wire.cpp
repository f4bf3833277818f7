#include "solver/protobuf_wire.hpp"

#include <bit>

namespace ebbtide::scheduler {
namespace {

enum WireType { kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5 };

class Cursor {
 public:
  explicit Cursor(std::string_view wire) : rest_(wire) {}

  bool done() const { return rest_.empty(); }

  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::optional<std::string_view> take(std::uint64_t size) {
    if (size > rest_.size()) return std::nullopt;
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::optional<std::uint64_t> fixed(std::size_t size) {  // little-endian on the wire
    const auto taken = take(size);
    if (!taken) return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;)
      value = value << 8 | static_cast<std::uint8_t>((*taken)[i]);
    return value;
  }

  std::optional<ProtobufField> field() {
    const auto tag = varint();
    if (!tag || *tag >> 3 == 0 || *tag >> 32 != 0) return std::nullopt;
    ProtobufField field;
    field.number = static_cast<int>(*tag >> 3);
    std::optional<std::uint64_t> bits;
    switch (*tag & 7) {
      case kVarint:
        bits = varint();
        break;
      case kFixed64:
        bits = fixed(8);
        break;
      case kFixed32:
        bits = fixed(4);
        break;
      case kDelimited:
        bits = varint();
        if (const auto taken = bits ? take(*bits) : std::nullopt) {
          field.bytes = *taken;
          field.delimited = true;
        } else {
          return std::nullopt;
        }
        break;
      default:
        return std::nullopt;
    }
    if (!bits) return std::nullopt;
    field.bits = *bits;
    return field;
  }

 private:
  std::string_view rest_;
};

}  // namespace

void ProtobufMessage::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) wire_ += static_cast<char>(value | 0x80);
  wire_ += static_cast<char>(value);
}

void ProtobufMessage::tag(int field, int type) {
  varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type));
}

ProtobufMessage& ProtobufMessage::integer(int field, std::int64_t value) {
  tag(field, kVarint);
  varint(static_cast<std::uint64_t>(value));  // negative: ten bytes
  return *this;
}

ProtobufMessage& ProtobufMessage::real(int field, double value) {
  tag(field, kFixed64);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (unsigned shift = 0; shift < 64; shift += 8) wire_ += static_cast<char>(bits >> shift);
  return *this;
}

ProtobufMessage& ProtobufMessage::bytes(int field, std::string_view value) {
  tag(field, kDelimited);
  varint(value.size());
  wire_ += value;
  return *this;
}

ProtobufMessage& ProtobufMessage::message(int field, const ProtobufMessage& value) {
  return bytes(field, value.wire_);
}

ProtobufMessage& ProtobufMessage::packed(int field, const std::vector<std::int64_t>& values) {
  ProtobufMessage list;
  for (const std::int64_t value : values) list.varint(static_cast<std::uint64_t>(value));
  return bytes(field, list.wire_);
}

double ProtobufField::real() const {
  return std::bit_cast<double>(bits);
}

std::optional<std::vector<std::int64_t>> ProtobufField::integers() const {
  if (!delimited) return std::vector{static_cast<std::int64_t>(bits)};
  std::vector<std::int64_t> values;
  for (Cursor cursor(bytes); !cursor.done();) {
    const auto value = cursor.varint();
    if (!value) return std::nullopt;
    values.push_back(static_cast<std::int64_t>(*value));
  }
  return values;
}

std::optional<std::vector<ProtobufField>> protobufFields(std::string_view wire) {
  std::vector<ProtobufField> fields;
  for (Cursor cursor(wire); !cursor.done();) {
    const auto field = cursor.field();
    if (!field) return std::nullopt;
    fields.push_back(*field);
  }
  return fields;
}

}  // namespace ebbtide::scheduler
