//go:build race

package sqlite

// Raced: SQLite, which is translated from C, is some twenty times slower under the race detector. The tests are then
// smaller; they run in full without it.
const Raced = true
