// The row between the network's logits and the random draw, eight numbers at a
// time: the same operations in the same order as softmax in numpy.go.

#include "softmax_amd64.h"

#include <immintrin.h>

#define ROW 1024
#define BLOCK 128 // elements that NumPy's pairwise sum adds up in one run

// fence keeps the compiler from fusing a product with the sum that it feeds.
#define fence(x) __asm__("" : "+x"(x))

typedef __m256 f8;

static inline __attribute__((target("avx2,fma"))) f8 exp8(f8 x, int fused) {
	const f8 magic = _mm256_set1_ps(0x1.8p+23f), log2e = _mm256_set1_ps(0x1.715476p+0f);
	f8 q;
	if (fused) {
		q = _mm256_fmadd_ps(x, log2e, magic);
	} else {
		q = _mm256_mul_ps(x, log2e);
		fence(q);
		q = _mm256_add_ps(q, magic);
	}
	q = _mm256_sub_ps(q, magic);
	f8 r = _mm256_fmadd_ps(q, _mm256_set1_ps(-0x1.62e4p-1f), x);
	r = _mm256_fmadd_ps(q, _mm256_set1_ps(-0x1.7f7d1cp-20f), r);
	f8 n = _mm256_set1_ps(0x1.0a7bbp-11f);
	n = _mm256_fmadd_ps(n, r, _mm256_set1_ps(0x1.bae2b2p-8f));
	n = _mm256_fmadd_ps(n, r, _mm256_set1_ps(0x1.a2fb18p-5f));
	n = _mm256_fmadd_ps(n, r, _mm256_set1_ps(0x1.fa98bp-3f));
	n = _mm256_fmadd_ps(n, r, _mm256_set1_ps(0x1.7397aap-1f));
	n = _mm256_fmadd_ps(n, r, _mm256_set1_ps(1));
	f8 d = _mm256_set1_ps(0x1.61d064p-6f);
	d = _mm256_fmadd_ps(d, r, _mm256_set1_ps(-0x1.18d0aep-2f));
	d = _mm256_fmadd_ps(d, r, _mm256_set1_ps(1));
	f8 y = _mm256_div_ps(n, d);
	// y·2^q by way of y·2^(q+64), which is exact, so that a result below the
	// normal range is rounded once.
	__m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(q), _mm256_set1_epi32(127 + 64)), 23);
	y = _mm256_mul_ps(_mm256_mul_ps(y, _mm256_castsi256_ps(power)), _mm256_set1_ps(0x1p-64f));
	// 0 from here down; the comparison is false for NaN.
	return _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(-0x1.9fe36ap+6f), _CMP_LE_OQ), y);
}

// fold adds eight running sums up in pairs.
static inline __attribute__((target("avx2,fma"))) float fold(f8 s) {
	s = _mm256_hadd_ps(s, s);
	s = _mm256_hadd_ps(s, s);
	return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}

__attribute__((target("avx2,fma"))) double lockstep_softmax(const float *logits, float *probs, double *running, int fused) {
	const f8 temperature = _mm256_set1_ps(0.8f);
	f8 highest = _mm256_set1_ps(-__builtin_inff());
	for (int i = 0; i < ROW; i += 8) {
		f8 x = _mm256_div_ps(_mm256_loadu_ps(logits + i), temperature);
		_mm256_storeu_ps(probs + i, x);
		highest = _mm256_max_ps(x, highest); // highest where x is NaN
	}
	__m128 m = _mm_max_ps(_mm256_castps256_ps128(highest), _mm256_extractf128_ps(highest, 1));
	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	m = _mm_max_ss(m, _mm_movehdup_ps(m));
	const f8 shift = _mm256_set1_ps(_mm_cvtss_f32(m));

	float s[ROW / BLOCK];
	for (int b = 0; b < ROW / BLOCK; b++) {
		float *e = probs + b * BLOCK;
		f8 sum;
		for (int i = 0; i < BLOCK; i += 8) {
			f8 y = exp8(_mm256_sub_ps(_mm256_loadu_ps(e + i), shift), fused);
			_mm256_storeu_ps(e + i, y);
			sum = i == 0 ? y : _mm256_add_ps(sum, y);
		}
		s[b] = fold(sum);
	}
	const f8 sum = _mm256_set1_ps(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));

	double total = 0;
	for (int i = 0; i < ROW; i += 8) {
		f8 p = _mm256_div_ps(_mm256_loadu_ps(probs + i), sum);
		_mm256_storeu_ps(probs + i, p);
		for (int j = 0; j < 8; j++) {
			total += (double)probs[i + j];
			running[i + j] = total;
		}
	}
	return total;
}
