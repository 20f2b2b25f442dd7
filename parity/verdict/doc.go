// Package verdict holds what comparisons, checks and planted faults come to: data, its
// text, JSON and JUnit XML. Commands and the gate make verdicts, reports draw them.
package verdict
