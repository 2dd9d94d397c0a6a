// The guest's side of the tests: `agent serve` runs commands, keeps processes and hands out files for the machine that
// the guest runs on; `agent probe` is the workload, a container that tells what it sees.
package main

import (
	"fmt"
	"os"
)

func main() {
	commands := map[string]func() error{"serve": serve, "probe": probe}
	if len(os.Args) != 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: agent serve | probe")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}
