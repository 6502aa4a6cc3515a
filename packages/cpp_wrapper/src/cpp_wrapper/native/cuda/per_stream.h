// State of NVIDIA's libraries for each stream: its calls are in order, so that they share a workspace.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace wir {

/// The state of one stream, which one call at a time uses.
template <class State> struct OfStream {
  int32_t gpu;
  void* stream;
  std::mutex using_it;
  State state;
  OfStream(int32_t gpu, void* stream) : gpu(gpu), stream(stream) {}
};

/// Maximum number of streams that keep a state; the one that is used least recently loses it.
inline constexpr size_t kStreams = 16;

/// Returns the state of a stream; makes it in the first call.
template <class State> std::shared_ptr<OfStream<State>> of_stream(int32_t gpu, void* stream) {
  // Never destroyed: the driver ends before the library's static objects.
  static auto* const known = new std::vector<std::shared_ptr<OfStream<State>>>;
  static std::mutex searching;
  const std::lock_guard<std::mutex> lock(searching);
  const auto found = std::find_if(known->begin(), known->end(), [&](const auto& one) { return one->gpu == gpu && one->stream == stream; });
  if (found != known->end()) {
    std::rotate(known->begin(), found, found + 1);
  } else {
    if (known->size() == kStreams) known->pop_back();
    known->insert(known->begin(), std::make_shared<OfStream<State>>(gpu, stream));
  }
  return known->front();
}

}  // namespace wir
