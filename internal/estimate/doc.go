// Package estimate turns raw counters into rates, service time, dispersion and cold start.
//
// It is pure: [Update] takes the state before and one sample and returns the state after with the
// estimates, so that a run can be replayed from its samples. See algorithm notes in docs/explanation.
package estimate
