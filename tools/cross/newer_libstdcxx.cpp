// The functions of libstdc++ that the headers of this machine's GCC call and that GLIBCXX_3.4.24, the newest version of
// manylinux_2_28, lacks. The wheels link them in, as those that PyPA's images make do.
#include <memory>
#include <new>
#include <typeinfo>

namespace std {

// GLIBCXX_3.4.29: thrown by allocators.
void __throw_bad_array_new_length() { throw bad_array_new_length(); }

// GLIBCXX_3.4.26: tells the tag of make_shared in code without RTTI.
bool _Sp_make_shared_tag::_S_eq(const type_info &type) noexcept { return type == typeid(_Sp_make_shared_tag); }

}  // namespace std
