// Probabilities of 1024 logits and their running sums; the last one is returned.
double lockstep_softmax(const float *logits, float *probs, double *running, int fused);
