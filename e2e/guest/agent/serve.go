package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	address       = ":10000"
	tunnelAddress = ":10001"
	// What gRPC clients outside reach through tunnelAddress. It may come later and go again.
	tunnelTarget = "/var/lib/kubelet/pod-resources/kubelet.sock"
)

// command is what a request asks to run.
type command struct {
	Argv    []string `json:"argv"`
	Env     []string `json:"env"`
	Log     string   `json:"log"`
	Seconds float64  `json:"seconds"`
}

type outcome struct {
	Code   int    `json:"code"`
	Output string `json:"output"`
	Errors string `json:"errors"`
}

// processes are those that /start has started, by PID; a code is there once it has ended.
type processes struct {
	mutex sync.Mutex
	codes map[int]*int
}

func serve() error {
	go tunnel()
	kept := &processes{codes: map[int]*int{}}
	http.HandleFunc("POST /run", handle(run))
	http.HandleFunc("POST /start", handle(kept.start))
	http.HandleFunc("GET /process", kept.state)
	http.HandleFunc("POST /signal", kept.signal)
	http.HandleFunc("GET /file", getFile)
	http.HandleFunc("PUT /file", putFile)
	return http.ListenAndServe(address, nil)
}

func handle(do func(command) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked command
		err := json.NewDecoder(r.Body).Decode(&asked)
		if err == nil && len(asked.Argv) == 0 {
			err = errors.New("argv is empty")
		}
		var reply any
		if err == nil {
			reply, err = do(asked)
		}
		answer(w, reply, err)
	}
}

func answer(w http.ResponseWriter, reply any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(reply)
}

// run waits for the end of the command and of its output. One that takes too long is killed, with all its children.
func run(asked command) (any, error) {
	limit, cancel := context.WithTimeout(context.Background(), time.Duration(asked.Seconds*float64(time.Second)))
	defer cancel()
	child := exec.CommandContext(limit, asked.Argv[0], asked.Argv[1:]...)
	child.Env = append(os.Environ(), asked.Env...)
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	child.Cancel = func() error { return syscall.Kill(-child.Process.Pid, syscall.SIGKILL) }
	child.WaitDelay = time.Second
	var output, problems bytes.Buffer
	child.Stdout, child.Stderr = &output, &problems
	err := child.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return nil, err
	}
	return outcome{child.ProcessState.ExitCode(), output.String(), problems.String()}, nil
}

func (p *processes) start(asked command) (any, error) {
	log, err := os.OpenFile(asked.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	child := exec.Command(asked.Argv[0], asked.Argv[1:]...)
	child.Env = append(os.Environ(), asked.Env...)
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	child.Stdout, child.Stderr = log, log
	if err := child.Start(); err != nil {
		return nil, err
	}
	pid := child.Process.Pid
	p.mutex.Lock()
	p.codes[pid] = nil
	p.mutex.Unlock()
	go func() {
		_ = child.Wait()
		code := child.ProcessState.ExitCode()
		p.mutex.Lock()
		p.codes[pid] = &code
		p.mutex.Unlock()
	}()
	return map[string]int{"pid": pid}, nil
}

func (p *processes) state(w http.ResponseWriter, r *http.Request) {
	pid, err := strconv.Atoi(r.URL.Query().Get("pid"))
	p.mutex.Lock()
	code, known := p.codes[pid]
	p.mutex.Unlock()
	if err == nil && !known {
		err = errors.New("no process of ours")
	}
	answer(w, map[string]any{"code": code}, err)
}

func (p *processes) signal(w http.ResponseWriter, r *http.Request) {
	pid, err := strconv.Atoi(r.URL.Query().Get("pid"))
	number, wrong := strconv.Atoi(r.URL.Query().Get("number"))
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if code, known := p.codes[pid]; err == nil && wrong == nil && known && code == nil {
		err = syscall.Kill(pid, syscall.Signal(number))
	}
	answer(w, map[string]any{}, errors.Join(err, wrong))
}

// getFile sends every file that matches the pattern, one after the other.
func getFile(w http.ResponseWriter, r *http.Request) {
	paths, _ := filepath.Glob(r.URL.Query().Get("path"))
	if len(paths) == 0 {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	for _, path := range paths {
		// sysfs and procfs tell no size.
		if content, err := os.ReadFile(path); err == nil {
			_, _ = w.Write(content)
		}
	}
}

// putFile replaces a file at once; what already is there and is no ordinary file (sysfs) is written to.
func putFile(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Query().Get("path")
	content, err := io.ReadAll(r.Body)
	if err == nil && (strings.HasPrefix(path, "/sys/") || strings.HasPrefix(path, "/proc/")) {
		err = os.WriteFile(path, content, 0)
	} else if err == nil {
		unfinished := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(unfinished, content, 0o644))
		err = errors.Join(err, os.Rename(unfinished, path))
	}
	answer(w, map[string]any{}, err)
}

func tunnel() {
	listener, err := net.Listen("tcp", tunnelAddress)
	if err != nil {
		panic(err)
	}
	for {
		outside, err := listener.Accept()
		if err != nil {
			return
		}
		go join(outside)
	}
}

func join(outside net.Conn) {
	defer outside.Close()
	inside, err := net.Dial("unix", tunnelTarget)
	if err != nil {
		return
	}
	defer inside.Close()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{outside, inside}, {inside, outside}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
}
