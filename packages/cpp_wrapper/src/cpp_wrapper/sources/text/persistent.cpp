// Memory that persists between calls.
#include "container.h"

namespace wir {

Spares::~Spares() {
  for (auto& places : places_) {
    for (Place& place : places) delete place.set.load();
  }
}

std::unique_ptr<Persistent> Spares::find(bool is_inference, void* stream) {
  for (Place& place : places_[is_inference]) {
    if (place.set.load(std::memory_order_relaxed) == nullptr || place.stream.load() != stream) continue;
    std::unique_ptr<Persistent> found(place.set.exchange(nullptr));
    if (found == nullptr) continue;
    if (found->stream == stream) return found;
    give(std::move(found));  // another call has put a set there
  }
  return nullptr;
}

std::unique_ptr<Persistent> Spares::make(const Run& run) {
  std::unique_ptr<Persistent> made(
      new Persistent{Handles(wir_program.persistent, nullptr), makes_inference_tensors(), run.stream, nullptr});
  if (run.device != nullptr) made->graphs = run.device->graphs();
  if (wir_program.persistent != 0) wir_program.make_persistent(made->handles.data(), run);
  return made;
}

std::unique_ptr<Persistent> Spares::take(const Run& run) {
  std::unique_ptr<Persistent> found = find(false, run.stream);
  if (found == nullptr && makes_inference_tensors()) found = find(true, run.stream);
  return found == nullptr ? make(run) : std::move(found);
}

void Spares::give(std::unique_ptr<Persistent> set) {
  void* const stream = set->stream;  // read first: another call may take the set
  for (Place& place : places_[set->is_inference]) {
    Persistent* expected = nullptr;
    if (!place.set.compare_exchange_strong(expected, set.get())) continue;
    set.release();
    place.stream.store(stream);
    return;
  }
}

}  // namespace wir
