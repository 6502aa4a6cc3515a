// Scratch memory of threads.
#include "memory.h"

#include <pthread.h>

#include <cstdlib>
#include <mutex>

namespace wir {
namespace {

constexpr int64_t kBlockAlignment = 64;

/// A block that a thread keeps, used from its begin on. Blocks are in a list.
struct Block {
  unsigned char* data = nullptr;
  int64_t nbytes = 0, used = 0;
  Block *previous = nullptr, *next = nullptr;
};

/// The blocks of all threads. A thread-local object with a destructor would keep the library loaded as long as the thread,
/// so a key ends blocks.
class Blocks {
 public:
  Blocks() { has_key_ = pthread_key_create(&key_, end) == 0; }
  ~Blocks() { if (has_key_) pthread_key_delete(key_); }  // the library is unloaded; threads may run
  Block* add() {
    auto* const block = new Block;
    const std::lock_guard<std::mutex> lock(lock_);
    block->next = first_;
    if (first_ != nullptr) first_->previous = block;
    first_ = block;
    if (has_key_) pthread_setspecific(key_, block);
    return block;
  }
  void free_all() {
    const std::lock_guard<std::mutex> lock(lock_);
    for (Block* block = first_; block != nullptr; block = block->next) {
      std::free(block->data);
      block->data = nullptr;
      block->nbytes = 0;
    }
  }

 private:
  static void end(void* block);
  void remove(Block* block) {
    const std::lock_guard<std::mutex> lock(lock_);
    (block->previous != nullptr ? block->previous->next : first_) = block->next;
    if (block->next != nullptr) block->next->previous = block->previous;
    std::free(block->data);
    delete block;
  }
  std::mutex lock_;
  Block* first_ = nullptr;
  pthread_key_t key_{};
  bool has_key_ = false;
};

Blocks& all_blocks() {
  static Blocks blocks;
  return blocks;
}

void Blocks::end(void* block) { all_blocks().remove(static_cast<Block*>(block)); }

Block& thread_block() {
  thread_local Block* block = nullptr;
  if (block == nullptr) block = all_blocks().add();
  return *block;
}

}  // namespace

void free_scratch() { all_blocks().free_all(); }

Scratch::Scratch(int64_t nbytes) : before_(-1) {
  Block& block = thread_block();
  const int64_t room = (nbytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  if (block.used == 0 && block.nbytes < room) {
    std::free(block.data);
    block.data = nullptr;
    block.nbytes = 0;
    block.data = allocate_bytes(room);
    block.nbytes = room;
  }
  if (block.nbytes - block.used < room) {
    data_ = allocate_bytes(room);  // inside another scratch
    return;
  }
  before_ = block.used;
  data_ = block.data + block.used;
  block.used += room;
}

Scratch::~Scratch() {
  if (before_ < 0) {
    std::free(data_);
  } else {
    thread_block().used = before_;
  }
}

}  // namespace wir
