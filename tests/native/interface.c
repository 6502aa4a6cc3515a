/* Opens a native library, calls it, and checks that wrong calls are refused. Returns the number that are not. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <wrapper_ir/model.h>

static const wir_api* api;
static int refused(int error, const char* code) {
  if (error != 1 || strcmp(api->last_error_code(), code) != 0) {
    printf("expected %s, got %d %s\n", code, error, api->last_error());
    return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  void* library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return 2;
  wir_get_api_function get_api;
  *(void**)&get_api = dlsym(library, "wir_get_api");
  api = get_api(WIR_ABI);
  if (get_api(WIR_ABI + 1) != NULL || api->size != sizeof *api) return 3;
  wir_model* model = NULL;
  if (api->open(NULL, &model) != 0) {
    puts(api->last_error());
    return 4;
  }
  const wir_description* about = api->description();
  printf("%zu %zu %s %s %d\n", about->num_inputs, about->num_results, about->inputs[0].name, about->inputs[0].text,
         (int)about->symbols[0].max);
  float x[20], k[4] = {2, 2, 2, 2}, y[20];
  for (int i = 0; i < 20; ++i) x[i] = (float)(i - 10);
  int64_t sizes[] = {5, 4}, size[] = {4};
  DLTensor tx = wir_tensor(x, wir_float32(), 2, sizes), tk = wir_tensor(k, wir_float32(), 1, size);
  const DLTensor* inputs[] = {&tx, &tk};
  DLManagedTensorVersioned* results[6];
  if (api->run(model, inputs, 2, results, 6) != 0) return 5;
  printf("%g %d %d\n", ((float*)results[0]->dl_tensor.data)[19], results[3] == NULL,
         (int)*(int64_t*)results[2]->dl_tensor.data);
  for (int i = 0; i < 6; ++i) {
    if (results[i] != NULL) results[i]->deleter(results[i]);
  }
  int failures = 0;
  failures += refused(api->run(model, inputs, 1, results, 6), "WIR926");
  failures += refused(api->run(model, NULL, 2, results, 6), "WIR926");
  failures += refused(api->run(model, inputs, 2, results, 5), "WIR926");
  failures += refused(api->run(model, inputs, 2, NULL, 6), "WIR926");
  failures += refused(api->run(NULL, inputs, 2, results, 6), "WIR926");
  failures += refused(api->open(NULL, NULL), "WIR926");
  failures += refused(api->update_constants(model, NULL, inputs, 1, 0), "WIR926");
  failures += refused(api->extract_constant(model, "nothing", 0, results), "CPP530");
  wir_options options = {0, 0, 0, NULL, 0, 0, NULL, 0};
  wir_model* other = NULL;
  failures += refused(api->open(&options, &other), "WIR926");
  options.size = sizeof options;
  options.threads = -1;
  failures += refused(api->open(&options, &other), "WIR926");
  const DLTensor* none[] = {&tx, NULL};
  failures += refused(api->run(model, none, 2, results, 6), "WIR926");
  DLTensor wrong = tx;
  wrong.data = NULL;
  inputs[0] = &wrong;
  failures += refused(api->run(model, inputs, 2, results, 6), "WIR926");
  wrong = tx, wrong.device.device_type = kDLCUDA;
  failures += refused(api->run(model, inputs, 2, results, 6), "WIR926");
  wrong = tx, wrong.ndim = -1;
  failures += refused(api->run(model, inputs, 2, results, 6), "WIR926");
  wrong = tx, wrong.ndim = 1 << 30;
  failures += refused(api->run(model, inputs, 2, results, 6), "WIR926");
  wrong = tx, wrong.shape = NULL;
  failures += refused(api->run(model, inputs, 2, results, 6), "WIR926");
  wrong = tx, wrong.dtype.lanes = 4;
  failures += refused(api->run(model, inputs, 2, results, 6), "WIR926");
  wrong = tx, wrong.byte_offset = 2;
  failures += refused(api->run(model, inputs, 2, results, 6), "WIR926");
  int64_t huge[] = {INT64_MAX, INT64_MAX}, negative[] = {-5, 4}, steps[] = {-4, 1};
  wrong = tx, wrong.shape = huge;
  failures += refused(api->run(model, inputs, 2, results, 6), "WIR408");
  wrong = tx, wrong.shape = negative;
  failures += refused(api->run(model, inputs, 2, results, 6), "WIR926");
  wrong = tx, wrong.strides = steps;
  failures += refused(api->run(model, inputs, 2, results, 6), "WIR926");
  inputs[0] = &tx;
  DLTensor ty = wir_tensor(y, wir_float32(), 2, sizes);
  const DLTensor* targets[] = {&ty, &ty, &ty, NULL, &ty, &ty};
  failures += refused(api->run_into(model, inputs, 2, targets, 6), "CPP610");
  failures += refused(api->run_into(model, inputs, 2, targets, 5), "CPP610");
  puts(api->metadata(model)[0] == '{' ? "metadata" : "none");
  api->close(model);
  api->close(NULL);
  dlclose(library);
  return failures;
}
