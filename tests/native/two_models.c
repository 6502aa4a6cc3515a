/* Runs two models that are linked into the program. */
#include <stdio.h>

#include "first.h"
#include "second.h"

static float first_of(const wir_api* api, const char* name) {
  wir_model* model = NULL;
  float x[8] = {1, 1, 1, 1, 1, 1, 1, 1}, k[4] = {2, 2, 2, 2}, value = -1;
  int64_t sizes[] = {2, 4}, size[] = {4};
  DLTensor tx = wir_tensor(x, wir_float32(), 2, sizes), tk = wir_tensor(k, wir_float32(), 1, size);
  const DLTensor* inputs[] = {&tx, &tk};
  DLManagedTensorVersioned* results[6];
  if (api->open(NULL, &model) != 0 || api->run(model, inputs, 2, results, 6) != 0) {
    puts(api->last_error());
    return value;
  }
  value = ((float*)results[0]->dl_tensor.data)[0];
  for (int i = 0; i < 6; ++i) {
    if (results[i] != NULL) results[i]->deleter(results[i]);
  }
  printf("%s %s %d %g\n", name, api->description()->name, api->metadata(model)[0] == '{', value);
  api->close(model);
  return value;
}

int main(void) {
  const float one = first_of(wir_first_get_api(WIR_ABI), "first");
  const float other = first_of(wir_second_get_api(WIR_ABI), "second");
  return one == 2 && other == 6 ? 0 : 1;
}
