#include "ebbtide/allocator/cuda/driver.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace ebbtide::allocator::cuda {
namespace {

// The interfaces are those of CUDA 12.0, which a later driver keeps; a function that is younger is
// asked for by its own version.
constexpr unsigned kCudaVersion = 12000;

class EntryPoints {
 public:
  EntryPoints() : library_(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {}

  bool libraryFound() const { return library_ != nullptr; }
  const std::string& missing() const { return missing_; }

  // `symbol` is the name that the library exports, with its version; the runtime takes the name
  // without it.
  template <typename Function>
  void find(Function& function, const char* name, const char* symbol,
            unsigned version = kCudaVersion) {
    function = reinterpret_cast<Function>(lookUp(name, symbol, version));
    if (function == nullptr && missing_.empty()) missing_ = symbol;
  }
  template <typename Function>
  void find(Function& function, const char* name) {
    find(function, name, name);
  }
  template <typename Function>
  void findOptional(Function& function, const char* name, unsigned version) {
    function = reinterpret_cast<Function>(lookUp(name, name, version));
  }

 private:
  void* lookUp(const char* name, const char* symbol, unsigned version) const {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult state = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error =
        ::cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &state);
    if (error == cudaSuccess && state == cudaDriverEntryPointSuccess && found != nullptr) {
      return found;
    }
    if (error != cudaSuccess) ::cudaGetLastError();  // nobody else shall find ours
    return library_ != nullptr ? ::dlsym(library_, symbol) : nullptr;
  }

  void* const library_;  // stays open: functions of it are in use until the process ends
  std::string missing_;
};

}  // namespace

DriverResult loadDriver() {
  DriverResult result;
  Driver& driver = result.driver;
  EntryPoints entries;
  if (!entries.libraryFound()) {  // nor would the runtime find it, and be slow to say so
    result.problem = "there is no NVIDIA driver here (libcuda.so.1)";
    return result;
  }
  entries.find(driver.contexts.init, "cuInit");
  entries.find(driver.contexts.deviceGet, "cuDeviceGet");
  entries.find(driver.contexts.deviceGetAttribute, "cuDeviceGetAttribute");
  entries.find(driver.contexts.primaryContextRetain, "cuDevicePrimaryCtxRetain");
  entries.find(driver.contexts.push, "cuCtxPushCurrent", "cuCtxPushCurrent_v2");
  entries.find(driver.contexts.pop, "cuCtxPopCurrent", "cuCtxPopCurrent_v2");
  entries.find(driver.contexts.synchronize, "cuCtxSynchronize");
  entries.findOptional(driver.contexts.recordEvent, "cuCtxRecordEvent", 12050);
  entries.find(driver.contexts.memoryInfo, "cuMemGetInfo", "cuMemGetInfo_v2");
  entries.find(driver.pages.granularity, "cuMemGetAllocationGranularity");
  entries.find(driver.pages.addressReserve, "cuMemAddressReserve");
  entries.find(driver.pages.addressFree, "cuMemAddressFree");
  entries.find(driver.pages.create, "cuMemCreate");
  entries.find(driver.pages.release, "cuMemRelease");
  entries.find(driver.pages.map, "cuMemMap");
  entries.find(driver.pages.unmap, "cuMemUnmap");
  entries.find(driver.pages.setAccess, "cuMemSetAccess");
  entries.find(driver.pages.retainHandle, "cuMemRetainAllocationHandle");
  entries.find(driver.pages.exportHandle, "cuMemExportToShareableHandle");
  entries.find(driver.pages.importHandle, "cuMemImportFromShareableHandle");
  entries.find(driver.events.create, "cuEventCreate");
  entries.find(driver.events.destroy, "cuEventDestroy", "cuEventDestroy_v2");
  entries.find(driver.events.record, "cuEventRecord");
  entries.find(driver.events.query, "cuEventQuery");
  entries.find(driver.events.streamIsCapturing, "cuStreamIsCapturing");
  entries.find(driver.contexts.exchangeCaptureMode, "cuThreadExchangeStreamCaptureMode");
  if (!entries.missing().empty()) {
    result.driver = {};
    result.problem = "the NVIDIA driver is too old: it has no " + entries.missing();
  }
  return result;
}

}  // namespace ebbtide::allocator::cuda
