// Defines the functions of libstdc++ that the headers of this machine's GCC call, but that GLIBCXX_3.4.24, the newest
// version in manylinux_2_28, lacks. They are linked into the wheels, as in wheels that are built in PyPA's images.
#include <memory>
#include <new>
#include <typeinfo>

namespace std {

// GLIBCXX_3.4.29: allocators call this function to throw.
void __throw_bad_array_new_length() { throw bad_array_new_length(); }

// GLIBCXX_3.4.26: recognizes the tag type of make_shared in code without RTTI.
bool _Sp_make_shared_tag::_S_eq(const type_info &type) noexcept { return type == typeid(_Sp_make_shared_tag); }

}  // namespace std
