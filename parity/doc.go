// Package parity compares simulators with each other and with recordings, bit by
// bit, and says where they part: route, step, stage, index, both bit patterns.
//
// There is no tolerance anywhere. A value either is the same or it is not.
package parity
