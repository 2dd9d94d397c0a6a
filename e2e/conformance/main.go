// Command conformance runs numaplace's scenario files through the kubelet's own managers.
//
// It reads one request a line on standard input and writes one result a line on standard output:
//
//	{"scenario": {...}, "preference": "lowest"|"none", "tries": 256}
//	{"steps": [...], "node": [...], "tries": 1}      or      {"error": "...", ...}
//
// The scenario is the contract's, with every device's id written out. README.md says what of a
// result is determined and what the kubelet leaves to chance.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// A scenario is one line; a large one has some megabytes.
const longestLine = 64 << 20

func main() {
	dir := flag.String("state-dir", "", "folder for the managers' checkpoints, best on a tmpfs (required)")
	flag.Parse()
	if *dir == "" || flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	klog.SetLogger(logr.Discard())
	if err := serve(os.Stdin, os.Stdout, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer, dir string) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestLine)
	results := bufio.NewWriter(out)
	encoder := json.NewEncoder(results)
	for lines.Scan() {
		if err := encoder.Encode(answer(lines.Bytes(), dir)); err != nil {
			return err
		}
		if err := results.Flush(); err != nil {
			return err
		}
	}
	return lines.Err()
}

func answer(line []byte, dir string) *Result {
	request := Request{Preference: preferLowest, Tries: 256}
	if err := decodeStrictly(line, &request); err != nil {
		return &Result{Error: err.Error()}
	}
	if request.Preference != preferLowest && request.Preference != preferNone {
		return &Result{Error: fmt.Sprintf("unknown preference %q", request.Preference)}
	}
	return conform(&request, dir)
}
