package process

// Guard runs a command, args, and lets nothing that it started outlive it or whoever started the guard. It is the body
// of a hidden command, for [Options.Guard]; its result is the status to exit with.
//
// Standard input must be a pipe whose other end the guard's owner keeps open. When it ends, because the owner closed
// it or died in any way, the command and all its descendants are killed. SIGTERM, SIGINT and SIGHUP are passed on to
// the command. When the command ends, what it left running is killed, and the guard ends as the command did: with its
// status, or by the same signal.
//
// On Linux "descendants" are all of them: orphans become the guard's children, wherever they moved. On other systems
// they are those that stayed in the command's process group.
func Guard(args []string) int { return guard(args) }
