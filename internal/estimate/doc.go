// Package estimate turns running totals into rates, service time and cold start.
//
// It is pure: [Update] takes the state before and one sample and returns the state after with the
// estimates, so that a run can be replayed from its samples. docs/explanation/sizing.md says why each
// estimator is what it is.
package estimate
