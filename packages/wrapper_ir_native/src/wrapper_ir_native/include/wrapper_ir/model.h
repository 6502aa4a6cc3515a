/* The interface of a native library of Wrapper IR: a model's program that needs neither torch nor Python.
 *
 * This is C99 and C++, and needs no other header of this package. A library exports one function, which returns a table
 * of functions:
 *
 *   void* library = dlopen("libm.so", RTLD_NOW | RTLD_LOCAL);
 *   wir_get_api_function get_api = (wir_get_api_function)dlsym(library, "wir_get_api");
 *   const wir_api* api = get_api(WIR_ABI);
 *   wir_model* model = NULL;
 *   if (api == NULL || api->open(NULL, &model) != 0) ...          // api->last_error() is the reason
 *   int64_t shape[] = {2, 3};
 *   DLTensor x = wir_tensor(data, wir_float32(), 2, shape);
 *   const DLTensor* inputs[] = {&x};
 *   DLManagedTensorVersioned* results[1];
 *   if (api->run(model, inputs, 1, results, 1) != 0) ...
 *   results[0]->deleter(results[0]);
 *   api->close(model);
 *
 * A static library exports the same function as `wir_NAME_get_api`, where NAME is the name it was built with.
 *
 * Functions that can fail return 0, or 1 after an error. `last_error` and `last_error_code` describe the last failure of
 * this thread. No exception leaves a function. Any number of threads may use a model, except `close`; calls of a program
 * that writes its constants must not overlap.
 */
#ifndef WRAPPER_IR_MODEL_H_
#define WRAPPER_IR_MODEL_H_

#include <stddef.h>
#include <stdint.h>

/* --- DLPack 1: https://dmlc.github.io/dlpack. The same declarations as in dlpack.h, which may be included before or
 * after this header. */

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1
#define DLPACK_EXTERN_C
#define DLPACK_DLL
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL)

typedef struct {
  uint32_t major, minor;
} DLPackVersion;

#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12,
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  kDLMAIA = 17
} DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U,
  kDLBool = 6U,
  kDLFloat8_e3m4 = 7U,
  kDLFloat8_e4m3 = 8U,
  kDLFloat8_e4m3b11fnuz = 9U,
  kDLFloat8_e4m3fn = 10U,
  kDLFloat8_e4m3fnuz = 11U,
  kDLFloat8_e5m2 = 12U,
  kDLFloat8_e5m2fnuz = 13U,
  kDLFloat8_e8m0fnu = 14U,
  kDLFloat6_e2m3fn = 15U,
  kDLFloat6_e3m2fn = 16U,
  kDLFloat4_e2m1fn = 17U
} DLDataTypeCode;

typedef struct {
  uint8_t code; /* a DLDataTypeCode */
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; null: contiguous */
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;
#elif !defined(DLPACK_MAJOR_VERSION) || DLPACK_MAJOR_VERSION < 1
#error "wrapper_ir/model.h needs dlpack.h of version 1 or later"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- description of a model */

/** The version of this interface. Later ones append to the structs below; an incompatible one gets another number. */
#define WIR_ABI 1u

enum {
  WIR_ANY = 0, /* the program does not read this input */
  WIR_TENSOR = 1,
  WIR_INT = 2,   /* a tensor of int64 without dimensions */
  WIR_FLOAT = 3, /* a tensor of float64 without dimensions */
  WIR_BOOL = 4,  /* a tensor of bool without dimensions */
  WIR_NONE = 5   /* a result that is a null pointer: None, or a text */
};

enum {
  WIR_WRITTEN = 1, /* a call writes the memory of this input, which must overlap no other */
  WIR_SHARES = 2   /* this result may share memory with an input: it must not outlive that */
};

/** An input, a result or a constant. */
typedef struct wir_value {
  const char* name;
  const char* text; /* the type: `f32[n, 4]`; for a result with a fixed value the value */
  int32_t kind;     /* WIR_TENSOR and others */
  int32_t flags;    /* WIR_WRITTEN, WIR_SHARES */
  DLDataType dtype;
  int32_t ndim;
  const int64_t* shape;          /* -1: an expression of symbols */
  const int64_t* strides;        /* in elements; -1: an expression of symbols, or any. Null: any */
  const char* const* shape_text; /* each size as text: `4`, `n`, `2*n` */
} wir_value;

/** A symbol that sizes depend on, with its range, both ends included. `max` is INT64_MAX if it has no upper bound. */
typedef struct wir_symbol {
  const char* name;
  int64_t min, max;
} wir_symbol;

/** A model, as it was built. Inputs are the model's arguments without containers, depth first, as in `in_spec`, without
 * those that capture fixed; results are its outputs, as in `out_spec`. */
typedef struct wir_description {
  size_t size; /* of this struct */
  const char* name;
  const wir_value* inputs;
  size_t num_inputs;
  const wir_value* results;
  size_t num_results;
  const wir_symbol* symbols;
  size_t num_symbols;
  const wir_value* constants; /* a tied constant has a row for each name */
  size_t num_constants;
  const char* in_spec; /* structures as `torch.utils._pytree.treespec_dumps` writes them; "" if it cannot */
  const char* out_spec;
} wir_description;

/* --- the functions of a library */

/** Options of `open`. Zero is the default of each but `size`. */
typedef struct wir_options {
  size_t size;                 /* sizeof(wir_options) */
  int32_t threads;             /* maximum number of threads in a call; 0: OpenMP's setting */
  int32_t unchecked_constants; /* not 0: constants are not compared with their checksums, which reads all of them */
  const char* path;            /* the library's file, if its code was not loaded from there */
  uint64_t begin, nbytes;      /* the bytes of that file that are the library; 0, 0: the whole file */
  const char* weights;         /* the file of constants; null: beside the library */
  int32_t device;              /* index of the CUDA device of a program for one */
} wir_options;

/** Flags of `update_constants` and `extract_constant`. */
enum {
  WIR_INACTIVE = 1, /* the set of constants that `swap_constants` activates */
  WIR_FULL = 2,     /* all constants must be given */
  WIR_BORROWED = 4  /* uses the caller's memory, unless other constants share the constant's storage. The memory must
                       not change, and must exist until the set is updated or freed */
};

typedef struct wir_model wir_model;

typedef struct wir_api {
  uint32_t abi;  /* WIR_ABI */
  uint32_t size; /* of this struct, in bytes */

  /** Opens the model. Each open model has its own constants if a call writes them, or if they are updated. `options` may
   * be null. */
  int32_t (*open)(const wir_options* options, wir_model** model);
  /** Closes a model after its last call. Results stay valid while the library is loaded. Null is allowed. */
  void (*close)(wir_model* model);
  /** The description, which needs no open model. */
  const wir_description* (*description)(void);
  /** The metadata of the library as JSON, valid until the model is closed; null after an error. */
  const char* (*metadata)(wir_model* model);

  /** The text of this thread's last failure, as `[WIR926] argument x: ...`; "" after a success. Valid until the thread's
   * next call of this library. */
  const char* (*last_error)(void);
  /** The code in that text: `WIR926`. */
  const char* (*last_error_code)(void);

  /** Runs the model. Inputs are borrowed for the call. The caller owns the results and calls their `deleter`; a result
   * is null if its kind is WIR_NONE. After an error all of them are null. */
  int32_t (*run)(wir_model* model, const DLTensor* const* inputs, size_t num_inputs, DLManagedTensorVersioned** results,
                 size_t num_results);
  /** As `run`, into tensors of the caller, one for each result; null where the result is WIR_NONE. They have the results'
   * element types and sizes, any strides, and overlap neither each other nor inputs. Otherwise it fails with CPP610, and
   * nothing is written. Results are computed in this memory if it is aligned to 64 bytes and has the strides that the
   * program gives them; others are copied. If the program itself fails, the contents are not defined. */
  int32_t (*run_into)(wir_model* model, const DLTensor* const* inputs, size_t num_inputs, const DLTensor* const* results,
                      size_t num_results);

  /** As `run`, on the flat parameters and results of the program, for callers that bind the model's arguments themselves
   * as the signature in the metadata says. */
  int32_t (*run_program)(wir_model* model, const DLTensor* const* params, size_t num_params,
                         DLManagedTensorVersioned** results, size_t num_results);

  /** Sets constants by any of their names for later calls; current calls continue with the old values. `flags`:
   * WIR_INACTIVE, WIR_FULL, WIR_BORROWED. Fails with CPP530 for unknown names and for tensors of another type. */
  int32_t (*update_constants)(wir_model* model, const char* const* names, const DLTensor* const* values, size_t count,
                              uint32_t flags);
  /** Exchanges active and inactive constants between calls. Fails with CPP531 if there are no inactive ones. */
  int32_t (*swap_constants)(wir_model* model);
  /** Frees the inactive constants once the calls that use them have ended. */
  int32_t (*free_inactive_constants)(wir_model* model);
  /** A copy of a constant, which the caller owns. `flags`: WIR_INACTIVE. Fails with CPP530 for an unknown name. */
  int32_t (*extract_constant)(wir_model* model, const char* name, uint32_t flags, DLManagedTensorVersioned** value);

  /* --- programs for CUDA devices: their tensors are on the device, where the types of inputs and results say so. Calls
   * queue work on a stream and return. */

  /** The stream (`CUstream`, `cudaStream_t`) of this thread's later calls of any model of the library. Null, as for a new
   * thread: the default stream. A result's memory is freed in the order of the stream of its call. */
  int32_t (*use_stream)(void* stream);
  /** Waits for the work of this thread's stream on the model's device. */
  int32_t (*synchronize)(wir_model* model);
  /** Copies a tensor to the host (`kDLCPU`) or to the model's device (`kDLCUDA`), contiguous, and waits for the copy. The
   * caller owns it. */
  int32_t (*copy_to)(wir_model* model, DLDeviceType device, const DLTensor* source, DLManagedTensorVersioned** copy);
} wir_api;

/** The type of the exported function. It returns null for an `abi` that the library does not have. */
typedef const wir_api* (*wir_get_api_function)(uint32_t abi);

/* --- helpers */

static inline DLDataType wir_dtype(uint8_t code, uint8_t bits) {
  DLDataType type;
  type.code = code;
  type.bits = bits;
  type.lanes = 1;
  return type;
}
static inline DLDataType wir_float32(void) { return wir_dtype(kDLFloat, 32); }
static inline DLDataType wir_float64(void) { return wir_dtype(kDLFloat, 64); }
static inline DLDataType wir_int64(void) { return wir_dtype(kDLInt, 64); }
static inline DLDataType wir_int32(void) { return wir_dtype(kDLInt, 32); }
static inline DLDataType wir_bool(void) { return wir_dtype(kDLBool, 8); }

/** A contiguous tensor over memory of the caller, who keeps `shape`, too. */
static inline DLTensor wir_tensor(void* data, DLDataType dtype, int32_t ndim, int64_t* shape) {
  DLTensor tensor;
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.device.device_id = 0;
  tensor.ndim = ndim;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides = NULL;
  tensor.byte_offset = 0;
  return tensor;
}

#ifdef __cplusplus
}  /* extern "C" */
#endif

#endif /* WRAPPER_IR_MODEL_H_ */
