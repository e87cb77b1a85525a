package worker_test

// playRole is where the test binary becomes a worker process; see remote_test.go.
func playRole() {}
