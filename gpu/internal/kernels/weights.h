// Where the network's weights lie in Launch.weights, in float32. A matrix that
// multiplies rows of K from the right is packed in panels of 16 columns,
// (N/16, K, 16): a warp computes one panel and reads it from front to back.
// Everything else is row-major. weights.go packs.
#pragma once

namespace lockstep {

// Sizes of the network.
enum {
  kStates = 4,     // action, roll lataccel, v ego, a ego
  kHalf = 64,      // width of each of the two embeddings
  kWidth = 128,    // of the residual stream
  kHeads = 4,      // of attention
  kHeadSize = 32,
  kHidden = 512,   // of the MLP
  kLayers = 4,
  kPanel = 16,     // columns of a panel
};

// Offsets of a layer's weights from the layer's own.
enum {
  kAttentionNorm = 0,                                       // (2, 128) weight, bias
  kMLPNorm = kAttentionNorm + 2 * kWidth,                   // (2, 128) weight, bias
  kQKV = kMLPNorm + 2 * kWidth,                             // panels of (128, 384)
  kProjection = kQKV + kWidth * 3 * kWidth,                 // panels of (128, 128)
  kFC = kProjection + kWidth * kWidth,                      // panels of (128, 512)
  kOut = kFC + kWidth * kHidden,                            // panels of (512, 128)
  kLayerSize = kOut + kHidden * kWidth,
};

// Offsets from the start.
enum {
  kStateEmbedding = 0,                                          // (4, 64)
  kStateBias = kStateEmbedding + kStates * kHalf,               // (64)
  kTokenEmbedding = kStateBias + kHalf,                         // (1024, 64)
  kPositionEmbedding = kTokenEmbedding + kVocabulary * kHalf,   // (20, 128)
  kLayer0 = kPositionEmbedding + kContext * kWidth,             // layers
  kFinalNorm = kLayer0 + kLayers * kLayerSize,                  // (2, 128) weight, bias
  kHead = kFinalNorm + 2 * kWidth,                              // panels of (128, 1024)
  kWeights = kHead + kWidth * kVocabulary,                      // how many there are
};

}  // namespace lockstep
