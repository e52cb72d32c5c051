// Lists of registers for inline PTX: PLACES_N are the places of the first N operands, VALUES_N(R) is R(v[0]) to R(v[N - 1]).
#pragma once
#define PLACES_1 "%0"
#define PLACES_2 PLACES_1 ", " \
  "%1"
#define PLACES_4 PLACES_2 ", " \
  "%2, %3"
#define PLACES_8 PLACES_4 ", " \
  "%4, %5, %6, %7"
#define PLACES_16 PLACES_8 ", " \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define PLACES_32 PLACES_16 ", " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PLACES_64 PLACES_32 ", " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, " \
  "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define PLACES_128 PLACES_64 ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, " \
  "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106" \
  ", %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, " \
  "%125, %126, %127"
#define VALUES_AT_1(R, i) R(v[i])
#define VALUES_AT_2(R, i) VALUES_AT_1(R, i), VALUES_AT_1(R, i + 1)
#define VALUES_AT_4(R, i) VALUES_AT_2(R, i), VALUES_AT_2(R, i + 2)
#define VALUES_AT_8(R, i) VALUES_AT_4(R, i), VALUES_AT_4(R, i + 4)
#define VALUES_AT_16(R, i) VALUES_AT_8(R, i), VALUES_AT_8(R, i + 8)
#define VALUES_AT_32(R, i) VALUES_AT_16(R, i), VALUES_AT_16(R, i + 16)
#define VALUES_AT_64(R, i) VALUES_AT_32(R, i), VALUES_AT_32(R, i + 32)
#define VALUES_AT_128(R, i) VALUES_AT_64(R, i), VALUES_AT_64(R, i + 64)
#define VALUES_1(R) VALUES_AT_1(R, 0)
#define VALUES_2(R) VALUES_AT_2(R, 0)
#define VALUES_4(R) VALUES_AT_4(R, 0)
#define VALUES_8(R) VALUES_AT_8(R, 0)
#define VALUES_16(R) VALUES_AT_16(R, 0)
#define VALUES_32(R) VALUES_AT_32(R, 0)
#define VALUES_64(R) VALUES_AT_64(R, 0)
#define VALUES_128(R) VALUES_AT_128(R, 0)
#define PLACE_BEHIND_1 "%1"
#define PLACE_BEHIND_2 "%2"
#define PLACE_BEHIND_4 "%4"
#define PLACE_BEHIND_8 "%8"
#define PLACE_BEHIND_16 "%16"
#define PLACE_BEHIND_32 "%32"
#define PLACE_BEHIND_64 "%64"
#define PLACE_BEHIND_128 "%128"
#define PLACE_AFTER_2 "%3"
#define PLACE_AFTER_4 "%5"
#define PLACE_AFTER_8 "%9"
#define PLACE_AFTER_16 "%17"
#define PLACE_AFTER_32 "%33"
#define PLACE_AFTER_64 "%65"
#define PLACE_AFTER_128 "%129"
