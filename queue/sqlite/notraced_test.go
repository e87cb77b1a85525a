//go:build !race

package sqlite

const Raced = false // see raced_test.go
