# cmake -DINPUT= -DOUTPUT= -DNAME= -P write_embedded.cmake: the file's bytes as an array, since a
# string's literal of a whole page is longer than compilers must take.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"embedded_files.hpp\"

namespace ebbtide::metrics {
namespace {
constexpr unsigned char kBytes[] = {
${bytes}};
}  // namespace

const std::string_view ${NAME}(reinterpret_cast<const char*>(kBytes), sizeof kBytes);

}  // namespace ebbtide::metrics
")
