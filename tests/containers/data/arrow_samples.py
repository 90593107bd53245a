"""Arrow files that pyarrow 26 wrote, packed by zlib and base85, with columns of texts and numbers.

The stream has two batches; score lacks a value in its second row; sentence2 is of the type large_string.
"""

from __future__ import annotations

import zlib
from base64 import b85decode

_STREAM = (
    "c-o~>y-veG4E8li8>%2hsH!?J+{lCqQ#Z08F;?OUN_$lzRRNU>s!n|bBvu9n9)k@YfPs;z;yr@z;v*-EQhqG?zS#cG=bscsQ"
    "Je^X7_>AYf;t2c;unhW(FU|aJbgL=;{fld52z_>kNgSd!b_gcwM#xA{^js|sxWtmS~p$+7bU-@`7MX<p=P5wyqGu$iN~G8l`"
    "QvUaHb}v&Iq+(>eTlVJYLItEnd@>u1V!Hl@HY+em^5G#wv7u4byc@GZ6uQ)4h9O{QhSQ(-f&F`_U3Xn<g5Wtl;_3LAU`cO|&"
    "C3T|M(RD0fkVN+MV<HWm}M3HKP!+8x4#aGS8t_<hDtSv+O$&j|(L@{8I7)))N47LISn>H9d#<>_FykgMgbOfxmzUtFuK;@Um"
    "YKLVqv%C3+$etOKuEH8gYIPV9Q`>2Hb<Tv~8ZP>r~;r>I0u)&VmUTq(e@g=*r?tilL?6P>5#qC?)&G#=h7uyftXZ0Udd(!v;"
    "!l_j8"
)
_FILE = (
    "c-rk$u};H44D~f>8mdEzP*rtc$k+*~Ol-6RQa7YB(6zKzB~lflPyy=Hk)5Rj0|TGIMn8aokqPl1U|$>>Ss)>?V#)Vn-#ee}y"
    "Gw5{I6mzFe4z9dKma6l(BMH8eEdRDF4};WkE6>Y;5@)P>H}(odcgiJ#==Do#oA>bF#lqFo*9hoqk7h>AkFy|;x|fs2Q{8t!?"
    "T?S72<GL;)WvjY;<O3HcyROvw70GE)FmGx`xbYi*ho_+$3YOkKb$L1(*fpSF=?I+!IxmdzROBtl#~bqkcvzuZKiKlRK(yRB&"
    "8qA*`T~I@;QHmwNsR`B^xy5e+{}Ah5~U7QDg^8T*Xej6=aM>=t7x=2MZ|l2I|<e3N@s)CGUARmr!*b(0>&Nq91vFT%IwZ5YK"
    "S+gn_jc*8Bu$rtrcG811Sefsp6OhtUTAAMI!HL)D#aNjNNL2)h`Z-ZxVK*0TQ?VD+HJ```r8>EaYvH$-Y{M{R*{`Ks??GsLT"
    "cH9"
)
_COMPRESSED = (
    "c-oy)y-EW?5T3oeToT#9At9vDaDu3nVk$e+2$q7rKuk8|Ae<ov4XI+`6WCZ-SlC)v*jWVh0W5p~5g)+PM$XyYxy`wd#(~+nn"
    "fYdRe)f_iN%k2)0FoAfgAX|<;1?3}PzTfsczSdK`T;(X?~uF5J7jNQE(~&It|hVo;ZIv91A(~<$iA{N=xe+q@#PHOMUL7dcv"
    "XI2As#mwY-r`~HIGG4)ya|bs!kc#z~fEFmF=2}vL+D^Mcfi~{C+`PfK|x)@~Z2AX2Npzo!QuJW%rB^(<Bq7`;o+<N)zQOE4Z"
    "GjqsqV#hZ^4H8O#^*s>IMNX5_2>eCm(Gd|Dy7L2{ksfrU%;HIgHeHImmB{@Thvwfw2RO!A%NBFS&dpYG7L^88m%#~P&lKW_b"
    "m!NshI3NcY7i>o{U>_u^S*c^_-kI7Zojl^Jcd@drje}fC}0s8unD5duwIpE^ur7W%#0kj7qI>R)b=cl-%cWV6AOI!dmH8ZGB"
    "9rGqKINqE!=ltzc`B_m9aZcQ>Hr+PpeM;pQff8jP"
)
_DICTIONARY = (
    "c-oCmI}XAy41H<SHbNOXRH!2dVPxbIt;E)YFmeoz!0p0wY(7B+;mUon{cJy{l+p!253vm*S~LiJ(VT}T+{h7h^dWOcGFo(G_"
    "snRoYovCd@8}+C4SkvB(?SgVq$2;A<4EsvECaMpcXDOA+CF6dV9H|dMdfpCw7M$R*^gUBGQCxfmap)#8s9A%_J;3$?jv5yPq"
    "U)jaW3xImUq-X-w>WtO5OVv-PI4>;ZL2SOWt>u4jjS"
)


def _unpacked(text: str) -> bytes:
    return zlib.decompress(b85decode(text))


STREAM, FILE, COMPRESSED, DICTIONARY = map(_unpacked, (_STREAM, _FILE, _COMPRESSED, _DICTIONARY))
