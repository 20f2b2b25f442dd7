#!/bin/bash
# emulate.sh DIR: boots Linux on an emulated CPU with AVX-512 (Bochs' Skylake-X),
# runs DIR/run there with sh in a copy of DIR, prints its output and exits with its
# status; 125 if the emulator failed. Programs in DIR must be static. Packages come
# from Debian. BOCHS_BIN is another emulator, AVX512_TIMEOUT the limit in seconds. A guest
# that has not begun with the work after AVX512_BOOT seconds is started once more.
set -euo pipefail
cache=$(cd "$(dirname "$0")/../.." && pwd)/build/avx512
packages='bochs bochs-term bochsbios vgabios busybox-static isolinux syslinux-common xorriso cpio'
ips=200000000 # what the guest takes for its speed: its clock depends on it, not the result

give_up() { echo "emulate.sh: $*" >&2; exit 125; }

apt() {
  [ "$(id -u)" = 0 ] || give_up "as root, first: apt-get update && apt-get install --no-install-recommends $*"
  mkdir -p "$cache"
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; } \
    > "$cache/apt.log" 2>&1 < /dev/null || give_up "cannot install $*: $(grep '^E:' "$cache/apt.log" | tail -n 1)"
}

# prepare installs what is missing and extracts the kernel of Debian's cloud images.
prepare() {
  command -v apt-get > /dev/null || give_up 'needs Debian, for its packages, or a CPU with AVX-512'
  local missing=() p
  for p in $packages; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2> /dev/null || true)" = installed ] || missing+=("$p")
  done
  [ ${#missing[@]} = 0 ] || apt "${missing[@]}"
  [ ! -f "$cache/vmlinuz" ] || return 0
  local scratch kernel
  mkdir -p "$cache"
  scratch=$(mktemp -d "$cache/kernel.XXXXXX")
  newest() { apt-cache depends linux-image-cloud-amd64 2> /dev/null | awk '/Depends: linux-image/ && !n++ {print $2}'; }
  kernel=$(newest || true)
  if [ -z "$kernel" ]; then
    apt # a bare image has no lists of packages
    kernel=$(newest || true)
  fi
  [ -n "$kernel" ] || give_up 'apt knows no package linux-image-cloud-amd64: needs Debian, or a CPU with AVX-512'
  (cd "$scratch" && apt-get download -q "$kernel" > log 2>&1 && dpkg -x ./*.deb .) || give_up "cannot download $kernel: $(tail -n 1 "$scratch/log")"
  mv "$scratch"/boot/vmlinuz-* "$cache/vmlinuz"
  rm -rf "$scratch"
}

dir=$(cd "$1" && pwd)
prepare
work=$(mktemp -d "$cache/work.XXXXXX")
emulator=
trap '[ -z "$emulator" ] || kill -KILL $emulator 2> /dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

mkdir -p "$work"/root/{bin,dev,proc,tmp} "$work/iso/isolinux"
cp -RL "$dir" "$work/root/work"
cp "$(dpkg -L busybox-static | grep 'bin/busybox$')" "$work/root/bin/busybox"
cat > "$work/root/init" <<'I'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
$b mount -t proc proc /proc
$b stty -F /dev/ttyS1 115200 raw -echo
cd /work
echo @begun > /dev/ttyS1
HOME=/tmp $b sh run > /dev/ttyS1 2>&1 < /dev/null
$b printf '\n@exit %d\n' $? > /dev/ttyS1
$b stty -F /dev/ttyS1 115200 raw -echo # returns when all is sent
$b poweroff -f
I
chmod +x "$work/root/init"
(cd "$work/root" && find . | cpio -o -H newc --quiet) > "$work/iso/initrd"
cp "$cache/vmlinuz" "$work/iso/"
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$work/iso/isolinux/"
# Without XSAVES, which Bochs lacks in part, and with the clock told, not measured.
cat > "$work/iso/isolinux/isolinux.cfg" <<I
DEFAULT linux
PROMPT 0
LABEL linux
 KERNEL /vmlinuz
 INITRD /initrd
 APPEND console=ttyS0,115200 quiet mitigations=off nokaslr nosmp noxsaves clearcpuid=321,323,124 tsc=reliable clocksource=tsc tsc_early_khz=$((ips / 1000)) lpj=$((ips / 250)) no_timer_check nowatchdog nosoftlockup random.trust_cpu=on audit=0 apparmor=0 panic=-1 pci=lastbus=0 cryptomgr.notests 8250.nr_uarts=2
I
xorriso -as mkisofs -quiet -o "$work/cd.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat \
  -no-emul-boot -boot-load-size 4 -boot-info-table "$work/iso" 2> "$work/xorriso.log" || give_up "xorriso: $(tail -n 1 "$work/xorriso.log")"

# Debian's build has a debugger, which must be told to go on, and no display named
# nogui: of those it has, the one for terminals opens neither a window nor a port.
bochs=${BOCHS_BIN:-bochs}
debugger=() display=nogui
help=$("$bochs" --help 2>&1 || true)
if [[ $help == *'-rc '* ]]; then
  printf 'c\nq\n' > "$work/debugger"
  debugger=(-rc "$work/debugger")
  display=term
fi
cat > "$work/bochsrc" <<I
config_interface: textconfig
display_library: $display
cpu: model=corei7_skylake_x, ips=$ips, reset_on_triple_fault=0, ignore_bad_msrs=1
memory: guest=512, host=512
clock: sync=none, time0=$(date +%s)
romimage: file=/usr/share/bochs/BIOS-bochs-latest, options=fastboot
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0: enabled=0
ata1: enabled=1, ioaddr1=0x170, ioaddr2=0x370, irq=15
ata1-master: type=cdrom, path=$work/cd.iso, status=inserted
boot: cdrom
floppy_bootsig_check: disabled=1
com1: enabled=1, mode=file, dev=$work/console
com2: enabled=1, mode=file, dev=$work/output
log: $work/bochs.log
panic: action=fatal
error: action=ignore
info: action=ignore
debug: action=ignore
I
limit=${AVX512_TIMEOUT:-1500} boot=${AVX512_BOOT:-300} begin=$SECONDS status=0

# attempt LIMIT runs the emulator for as many seconds at most; 137 if it ran past them, or
# past $boot without the guest's first line.
attempt() {
  : > "$work/output"
  TERM=linux "$bochs" -q "${debugger[@]}" -f "$work/bochsrc" > "$work/bochs.out" 2>&1 < /dev/null &
  emulator=$!
  local started=$SECONDS
  while kill -0 $emulator 2> /dev/null; do
    local ran=$((SECONDS - started))
    if [ $ran -ge "$1" ] || { [ $ran -ge "$boot" ] && ! [ -s "$work/output" ]; }; then
      kill -KILL $emulator || true
    fi
    sleep 1
  done
  wait $emulator
}

attempt "$limit" || status=$?
if [ $status = 137 ] && ! [ -s "$work/output" ]; then
  echo "emulate.sh: no line of the guest's in $boot s, it is started again" >&2
  status=0
  attempt $((limit - (SECONDS - begin))) || status=$?
fi
sed -i '/^@begun\r*$/d' "$work/output"
code=$(tail -n 1 "$work/output" | sed -n 's/^@exit \([0-9]*\)$/\1/p')
if [ -z "$code" ]; then
  cat "$work/output"
  [ $status != 137 ] || give_up "not done after $((SECONDS - begin)) s; the guest's last line: $(tail -n 1 "$work/output")"
  tail -qn 20 "$work/console" "$work/bochs.log" "$work/bochs.out" >&2 || true
  give_up "the emulator ended (status $status) before the program did"
fi
head -n -1 "$work/output" | head -c -1
exit "$code"
