"""A .cu file as a C++ source whose kernels run on the host (host_kernels.hpp).

python host_kernels.py FILE.cu OUT.cpp

Launches `f<<<...>>>(...)` become calls that nobody makes: nvcc's own stubs launch.
"""

import re
import sys
from pathlib import Path

KERNEL = re.compile(r"__global__\s+void\s+(\w+)\s*\(")
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.M)


def on_host(source: Path) -> str:
    text = source.read_text()
    kernels = KERNEL.findall(text)
    if not kernels:
        raise SystemExit(f"{source}: no kernels found")
    text = re.sub(r"<<<.*?>>>", "", text, flags=re.S)
    for kernel in kernels:  # not to be a library function's name, as write is
        text = re.sub(rf"\b{kernel}\b", f"{kernel}OnHost", text)
    namespace = NAMESPACE.search(text)
    using = f"  using namespace {namespace.group(1)};\n" if namespace else ""
    calls = "".join(
        f'  on_host::registerKernel<&{kernel}OnHost>("{kernel}", &{kernel}OnHost);\n'
        for kernel in kernels
    )
    return (
        f'#include "host_kernels.hpp"\n{text}\n'
        f"[[gnu::constructor]] static void registerKernels() {{\n{using}{calls}}}\n"
    )


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(on_host(Path(sys.argv[1])))
