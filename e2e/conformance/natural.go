package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// naturallySorted orders ids as numaplace does (model/device.py, natural_key): vf2 before vf10.
func naturallySorted(ids []string) []string {
	sorted := slices.Clone(ids)
	slices.SortFunc(sorted, compareNaturally)
	return sorted
}

func compareNaturally(a, b string) int {
	left, right := a, b
	for left != "" && right != "" {
		var partA, partB string
		partA, left = cutPart(left)
		partB, right = cutPart(right)
		numberA, numberB := isDigit(partA[0]), isDigit(partB[0])
		switch {
		case numberA && numberB:
			if order := compareNumbers(partA, partB); order != 0 {
				return order
			}
		case numberA != numberB:
			if numberA {
				return -1
			}
			return 1
		case partA != partB:
			return strings.Compare(partA, partB)
		}
	}
	// The end sorts behind everything.
	if order := cmp.Compare(len(right), len(left)); (left == "") != (right == "") {
		return order
	}
	return strings.Compare(a, b)
}

// cutPart splits off the leading digits, or the leading text up to the next digit.
func cutPart(text string) (string, string) {
	end := 1
	for end < len(text) && isDigit(text[end]) == isDigit(text[0]) {
		end++
	}
	return text[:end], text[end:]
}

func isDigit(char byte) bool { return '0' <= char && char <= '9' }

func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
