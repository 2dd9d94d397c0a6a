module numaplace/e2e/guest/agent

go 1.24
