# shellcheck shell=bash
# Sourced by the run.sh of lanes that need Debian packages; they have `say` and `die`.

# Installs what is missing of $1: lines of a command (or a file's path) and its Debian package.
install_missing() {
    local packages=() tool package
    while read -r tool package; do
        command -v "$tool" >/dev/null || packages+=("$package")
    done <<<"$1"
    [ ${#packages[@]} != 0 ] || return 0
    command -v apt-get >/dev/null || die "missing: ${packages[*]} (names of Debian's packages)"
    say "installing Debian packages: ${packages[*]}"
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}" >/dev/null
}
