#pragma once

namespace tpplan::bench {

/// CUDA C++ of the memory-bound kernels, compiled at run time by NVRTC, so that no compiler for GPU code is needed to
/// build. bf16 is handled as bits, because NVRTC finds no headers on a machine that has only the libraries. Threads
/// move 16 bytes at a time; all sizes are multiples of 8 elements.
inline constexpr const char* kComputeKernels = R"cuda(
typedef unsigned int u32;
typedef unsigned short u16;

__device__ __forceinline__ float low(u32 two) { return __uint_as_float(two << 16); }
__device__ __forceinline__ float high(u32 two) { return __uint_as_float(two & 0xffff0000u); }
__device__ __forceinline__ u32 rounded(float value) {
  u32 bits = __float_as_uint(value);
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}
__device__ __forceinline__ u32 pair(float a, float b) { return rounded(a) | (rounded(b) << 16); }
__device__ __forceinline__ void unpack(uint4 in, float* out) {
  out[0] = low(in.x); out[1] = high(in.x); out[2] = low(in.y); out[3] = high(in.y);
  out[4] = low(in.z); out[5] = high(in.z); out[6] = low(in.w); out[7] = high(in.w);
}
__device__ __forceinline__ uint4 pack(const float* in) {
  return make_uint4(pair(in[0], in[1]), pair(in[2], in[3]), pair(in[4], in[5]), pair(in[6], in[7]));
}
__device__ __forceinline__ float block_sum(float value) {
  __shared__ float parts[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0;
  for (int i = 0; i < blockDim.x / 32; ++i) total += parts[i];
  __syncthreads();
  return total;
}
__device__ __forceinline__ size_t index() { return (size_t)blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void nothing() {}

extern "C" __global__ void add(const uint4* a, const uint4* b, uint4* out, size_t vectors) {
  size_t i = index();
  if (i >= vectors) return;
  float x[8], y[8];
  unpack(a[i], x);
  unpack(b[i], y);
  for (int j = 0; j < 8; ++j) x[j] += y[j];
  out[i] = pack(x);
}

// One block of 256 threads a row of at most 4,096 elements, 16 a thread, held in registers.
extern "C" __global__ void norm_forward(const uint4* x, const uint4* weight, uint4* out, int width) {
  int vectors = width / 8;
  const uint4* row = x + (size_t)blockIdx.x * vectors;
  float held[16];
  float squares = 0;
#pragma unroll
  for (int count = 0; count < 2; ++count) {
    int v = threadIdx.x + count * 256;
    if (v >= vectors) continue;
    unpack(row[v], held + 8 * count);
    for (int j = 0; j < 8; ++j) squares += held[8 * count + j] * held[8 * count + j];
  }
  float scale = rsqrtf(block_sum(squares) / width + 1e-5f);
#pragma unroll
  for (int count = 0; count < 2; ++count) {
    int v = threadIdx.x + count * 256;
    if (v >= vectors) continue;
    float w[8];
    unpack(weight[v], w);
    for (int j = 0; j < 8; ++j) w[j] *= held[8 * count + j] * scale;
    out[(size_t)blockIdx.x * vectors + v] = pack(w);
  }
}

// Blocks take rows in turn and keep their part of the weight's gradient in registers; norm_weight adds the parts.
extern "C" __global__ void norm_backward(const uint4* x, const uint4* weight, const uint4* dy, uint4* dx, float* parts,
                                         int width, int rows) {
  int vectors = width / 8;
  float sums[16];
  for (int j = 0; j < 16; ++j) sums[j] = 0;
  for (int r = blockIdx.x; r < rows; r += gridDim.x) {
    float held[16], grad[16];
    float squares = 0, dot = 0;
#pragma unroll
    for (int count = 0; count < 2; ++count) {
      int v = threadIdx.x + count * 256;
      if (v >= vectors) continue;
      float w[8];
      unpack(x[(size_t)r * vectors + v], held + 8 * count);
      unpack(dy[(size_t)r * vectors + v], grad + 8 * count);
      unpack(weight[v], w);
      for (int j = 0; j < 8; ++j) {
        float h = held[8 * count + j];
        squares += h * h;
        dot += grad[8 * count + j] * w[j] * h;
      }
    }
    float scale = rsqrtf(block_sum(squares) / width + 1e-5f);
    float mean = block_sum(dot) * scale * scale / width;
#pragma unroll
    for (int count = 0; count < 2; ++count) {
      int v = threadIdx.x + count * 256;
      if (v >= vectors) continue;
      float w[8];
      unpack(weight[v], w);
      for (int j = 0; j < 8; ++j) {
        float h = held[8 * count + j], g = grad[8 * count + j];
        sums[8 * count + j] += g * h * scale;
        w[j] = scale * (g * w[j] - h * mean);
      }
      dx[(size_t)r * vectors + v] = pack(w);
    }
  }
#pragma unroll
  for (int count = 0; count < 2; ++count) {
    int v = threadIdx.x + count * 256;
    if (v >= vectors) continue;
    for (int j = 0; j < 8; ++j) parts[(size_t)blockIdx.x * width + 8 * v + j] = sums[8 * count + j];
  }
}

extern "C" __global__ void norm_weight(const float* parts, float* out, int width, int blocks) {
  int column = blockIdx.x * 32 + threadIdx.x % 32;
  __shared__ float sums[8][32];
  float sum = 0;
  for (int b = threadIdx.x / 32; b < blocks; b += 8) sum += parts[(size_t)b * width + column];
  sums[threadIdx.x / 32][threadIdx.x % 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    float total = 0;
    for (int i = 0; i < 8; ++i) total += sums[i][threadIdx.x];
    out[column] = total;
  }
}

// Rows of heads of 128; the first half of a head is rotated with the second.
extern "C" __global__ void rope(const uint4* x, const uint4* cosines, const uint4* sines, uint4* out, size_t pairs,
                                int heads) {
  size_t i = index();
  if (i >= pairs) return;
  size_t head = i / 8, place = i % 8, token = head / heads;
  float a[8], b[8], c[8], s[8];
  unpack(x[head * 16 + place], a);
  unpack(x[head * 16 + 8 + place], b);
  unpack(cosines[token * 8 + place], c);
  unpack(sines[token * 8 + place], s);
  for (int j = 0; j < 8; ++j) {
    float first = a[j];
    a[j] = first * c[j] - b[j] * s[j];
    b[j] = b[j] * c[j] + first * s[j];
  }
  out[head * 16 + place] = pack(a);
  out[head * 16 + 8 + place] = pack(b);
}

// A row of the input is a row of gates followed by a row of values; `vectors` per row of one of them.
extern "C" __global__ void swiglu_forward(const uint4* in, uint4* out, int vectors) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= vectors) return;
  size_t row = blockIdx.y;
  float gate[8], value[8];
  unpack(in[row * 2 * vectors + v], gate);
  unpack(in[row * 2 * vectors + vectors + v], value);
  for (int j = 0; j < 8; ++j) value[j] *= gate[j] / (1.0f + __expf(-gate[j]));
  out[row * vectors + v] = pack(value);
}

extern "C" __global__ void swiglu_backward(const uint4* in, const uint4* dy, uint4* dx, int vectors) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= vectors) return;
  size_t row = blockIdx.y;
  float gate[8], value[8], grad[8];
  unpack(in[row * 2 * vectors + v], gate);
  unpack(in[row * 2 * vectors + vectors + v], value);
  unpack(dy[row * vectors + v], grad);
  for (int j = 0; j < 8; ++j) {
    float sigmoid = 1.0f / (1.0f + __expf(-gate[j]));
    float to_gate = grad[j] * value[j] * sigmoid * (1.0f + gate[j] * (1.0f - sigmoid));
    value[j] = grad[j] * gate[j] * sigmoid;
    gate[j] = to_gate;
  }
  dx[row * 2 * vectors + v] = pack(gate);
  dx[row * 2 * vectors + vectors + v] = pack(value);
}

extern "C" __global__ void grad_accumulate(float4* sums, const uint2* grads, size_t vectors) {
  size_t i = index();
  if (i >= vectors) return;
  float4 sum = sums[i];
  uint2 g = grads[i];
  sum.x += low(g.x); sum.y += high(g.x); sum.z += low(g.y); sum.w += high(g.y);
  sums[i] = sum;
}

__device__ __forceinline__ float adam_step(float w, float& m, float& v, float g) {
  m = 0.9f * m + 0.1f * g;
  v = 0.95f * v + 0.05f * g * g;
  return w - 1e-4f * (m / (sqrtf(v) + 1e-8f) + 0.1f * w);
}

extern "C" __global__ void adam(float4* weights, float4* first, float4* second, const float4* grads, uint2* copies,
                                size_t vectors) {
  size_t i = index();
  if (i >= vectors) return;
  float4 w = weights[i], m = first[i], v = second[i], g = grads[i];
  w.x = adam_step(w.x, m.x, v.x, g.x);
  w.y = adam_step(w.y, m.y, v.y, g.y);
  w.z = adam_step(w.z, m.z, v.z, g.z);
  w.w = adam_step(w.w, m.w, v.w, g.w);
  weights[i] = w; first[i] = m; second[i] = v;
  copies[i] = make_uint2(pair(w.x, w.y), pair(w.z, w.w));
}
)cuda";

}  // namespace tpplan::bench
