# zig.sh ZIG ARGUMENTS...: runs zig with the names of Arm's extensions as GCC and clang have them: -march=armv8.2-a+fp16
# becomes -mcpu=generic+v8_2a+fullfp16, which is zig's way.
zig=$1
shift
for argument; do
  shift
  case $argument in
    -march=armv8*) argument=$(echo "$argument" |
      sed -e 's/^-march=armv\([0-9]*\)\.\([0-9]*\)-a/-mcpu=generic+v\1_\2a/' -e 's/^-march=armv8-a/-mcpu=generic/' \
          -e 's/+fp16\(+\|$\)/+fullfp16\1/') ;;
  esac
  set -- "$@" "$argument"
done
exec "$zig" "$@"
