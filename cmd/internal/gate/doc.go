// Package gate decides whether a change may be merged: it runs the checks that the
// change calls for and keeps what came of them, as text, JSON, JUnit XML, and for
// package report to draw.
//
// It fails closed. A check that crashes, does not end, runs nothing, or skips what is
// required has failed; a change of which nothing is known gets every check. What is
// compared is built afresh from the folder that is judged, and runs in a process of
// its own, so that no crash in it can end the gate.
package gate
